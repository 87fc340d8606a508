/** What an operator can do about a listener that could not start, in one line. */
export function whyNoStart(error: NodeJS.ErrnoException, host: string, port: number): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `port ${port} on ${host} is already in use: stop the other program or choose another port with --port`;
    case 'EACCES':
      return `port ${port} on ${host} needs rights this program does not have: choose a port above 1023 with --port`;
    case 'EADDRNOTAVAIL':
      return `${host} is not an address of this machine: choose another with --host, such as 127.0.0.1 or 0.0.0.0`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host name ${host} has no address: choose another with --host, such as 127.0.0.1 or 0.0.0.0`;
    default:
      return `cannot listen on port ${port} of ${host} (${error.message}): choose others with --host and --port`;
  }
}
