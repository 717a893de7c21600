"""The routes, bodies and answers of other servers, so that their clients can ask this server."""
