/** What an operator can do about a listener that could not start, in one line. `key`: what the port is set with. */
export function whyNoStart(
  error: NodeJS.ErrnoException,
  host: string,
  { port, key }: { readonly port: number; readonly key: string },
): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `port ${port} on ${host} is already in use: stop the other program or choose another port with ${key}`;
    case 'EACCES':
      return `port ${port} on ${host} needs rights this program does not have: choose a port above 1023 with ${key}`;
    case 'EADDRNOTAVAIL':
      return `${host} is not an address of this machine: choose another with --host, such as 127.0.0.1 or 0.0.0.0`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host name ${host} has no address: choose another with --host, such as 127.0.0.1 or 0.0.0.0`;
    default:
      return `cannot listen on port ${port} of ${host} (${error.message}): choose others with --host and ${key}`;
  }
}
