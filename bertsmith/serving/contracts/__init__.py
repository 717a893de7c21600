"""The routes, bodies and answers of other servers, whose clients can talk to this one."""
