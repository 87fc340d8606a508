/**
 * Whether only programs of this machine reach an address, or the name of one. An IPv4 address may be written
 * as IPv6.
 */
export function isLoopback(host: string): boolean {
  return /^(localhost\.?|(::ffff:)?127(\.\d{1,3}){3}|::1)$/i.test(host);
}
