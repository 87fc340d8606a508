import { BlockList, isIP } from 'node:net';

/**
 * The connection of a request. The address is read only on demand, because reading it costs a system call.
 */
export interface ClientPeer {
  readonly remoteAddress?: string | undefined;
}

/**
 * The proxies whose `X-Forwarded-For` is trusted. Each proxy appends the address of its caller; a client can
 * invent everything before that. The list is therefore read from its end, and only as long as each address is
 * that of a trusted proxy.
 */
export class TrustedProxies {
  readonly #ranges = new BlockList();

  /**
   * `ranges` in CIDR form, such as `10.20.0.0/16`; an IPv4 range also holds for connections to a listener on
   * IPv6.
   */
  constructor(ranges: readonly string[]) {
    for (const range of ranges) {
      const [address = '', bits] = range.split('/');
      this.#ranges.addSubnet(address, Number(bits), familyOf(address));
    }
  }

  /** The sender of a request from its connection and its `X-Forwarded-For` headers, joined with commas. */
  clientBehind(connection: ClientPeer, forwardedFor: string | undefined): ClientPeer {
    return forwardedFor === undefined ? connection : new ForwardedPeer(this, connection, forwardedFor);
  }

  includes(address: string): boolean {
    return isIP(address) !== 0 && this.#ranges.check(address, familyOf(address));
  }
}

class ForwardedPeer implements ClientPeer {
  readonly #proxies: TrustedProxies;
  readonly #connection: ClientPeer;
  readonly #forwardedFor: string;

  constructor(proxies: TrustedProxies, connection: ClientPeer, forwardedFor: string) {
    this.#proxies = proxies;
    this.#connection = connection;
    this.#forwardedFor = forwardedFor;
  }

  /** The list ends at an entry that is no address: the proxy that wrote it is the last known sender. */
  get remoteAddress(): string | undefined {
    const callers = this.#forwardedFor.split(',');
    let known = this.#connection.remoteAddress;
    while (known !== undefined && callers.length > 0 && this.#proxies.includes(known)) {
      const caller = parseAddress(callers.pop()!.trim());
      if (caller === undefined) break;
      known = caller;
    }
    return known;
  }
}

/** Some proxies add the port, with IPv6 in brackets. */
const ADDRESS_WITH_PORT = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/;

function parseAddress(text: string): string | undefined {
  const [, inBrackets, beforeColon] = ADDRESS_WITH_PORT.exec(text) ?? [];
  const address = inBrackets ?? beforeColon ?? text;
  return isIP(address) === 0 ? undefined : address;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}
