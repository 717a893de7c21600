"""The routes, bodies and answers of other servers, so that their clients can ask this server.

Each contract is that of one other server or client, in a file or folder. The files here that are no
contract have what several contracts share, such as the check of texts.
"""
