import type { LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** The addresses that requests may go to. spec/specification.md, "Network safety". */
export interface EgressRules {
  check(address: string): EgressRuling;
}

/** `rule` is `public`, `egress.allow 10.20.0.0/16`, or the range that is refused, such as `loopback`. */
export interface EgressRuling {
  readonly allowed: boolean;
  readonly rule: string;
}

/** The signature of `dns.lookup` with `all`. */
export type DnsLookup = (
  hostname: string,
  options: { readonly all: true },
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** The addresses of a host that requests may go to. The messages are sentences for the operator. */
export type EgressResolution =
  /**
   * `addresses` lists only the allowed ones. No connection may be made to the other addresses of the name.
   */
  | { readonly kind: 'allowed'; readonly addresses: readonly CheckedAddress[] }
  | { readonly kind: 'refused'; readonly address: string; readonly rule: string; readonly message: string }
  | { readonly kind: 'unresolved'; readonly message: string };

export interface CheckedAddress extends LookupAddress {
  /** The rule that allows it. */
  readonly rule: string;
}

type IpAddress = ipaddr.IPv4 | ipaddr.IPv6;

interface AllowedRange {
  readonly text: string;
  readonly network: IpAddress;
  readonly bits: number;
}

/** The part of IPv6 that is assigned for public use. ipaddr.js calls the unassigned part `unicast` too. */
const PUBLIC_IPV6: [ipaddr.IPv6, number] = [new ipaddr.IPv6([0x2000, 0, 0, 0, 0, 0, 0, 0]), 3];

/** Names of the ranges in messages, where those of ipaddr.js are abbreviations. */
const RANGE_NAMES: Readonly<Record<string, string>> = {
  linkLocal: 'link-local',
  carrierGradeNat: 'carrier-grade NAT',
  uniqueLocal: 'unique local',
  deprecatedSiteLocal: 'site-local',
  rfc6145: 'IPv4-translated',
  rfc6052: 'NAT64',
  '6to4': '6to4',
  teredo: 'Teredo',
  amt: 'AMT',
  as112: 'AS112',
  as112v6: 'AS112',
  deprecatedOrchid: 'ORCHID',
  orchid2: 'ORCHIDv2',
  droneRemoteIdProtocolEntityTags: 'drone remote ID',
  segmentRouting: 'segment routing',
};

/**
 * Refuses every address that is not public unicast, unless it is in one of the `allow` ranges (CIDR). Throws
 * an `Error` that quotes a range it cannot read.
 */
export function egressRules(allow: readonly string[]): EgressRules {
  const ranges = allow.map(parseRange);
  return { check: (address) => checkAddress(address, ranges) };
}

function parseRange(text: string): AllowedRange {
  const slash = text.indexOf('/');
  const address = slash === -1 ? text : text.slice(0, slash);
  // isIP first: ipaddr.js also reads octal, hexadecimal and shortened forms, which are mistakes in a rule.
  const family = isIP(address);
  if (family !== 0 && slash === -1) {
    throw new Error(
      `egress.allow: "${text}" is an address, not a range; write ${text}/${family === 4 ? 32 : 128}`,
    );
  }
  if (family === 0 || !ipaddr.isValidCIDR(text)) {
    throw new Error(`egress.allow: "${text}" is not a range of addresses such as 10.20.0.0/16`);
  }
  const [network, bits] = ipaddr.parseCIDR(text);
  // Mapped addresses are judged as IPv4 addresses, so such a range would never match.
  if (network instanceof ipaddr.IPv6 && network.isIPv4MappedAddress()) {
    throw new Error(`egress.allow: "${text}" is a range of IPv4 addresses; write it as one`);
  }
  return { text, network, bits };
}

function checkAddress(text: string, ranges: readonly AllowedRange[]): EgressRuling {
  const family = isIP(text);
  if (family === 0) return { allowed: false, rule: 'not an IP address' };
  return judge(ipaddr.process(family === 6 ? inHexadecimal(text) : text), ranges);
}

/**
 * ipaddr.js takes `::8.8.8.8` for the mapped address `::ffff:8.8.8.8`, which is another address, and cannot
 * read every zone (`fe80::1%eth0.1`). The form that `URL` gives is unambiguous.
 */
function inHexadecimal(address: string): string {
  return new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1);
}

function judge(address: IpAddress, ranges: readonly AllowedRange[]): EgressRuling {
  const range = ranges.find(({ network, bits }) => {
    return network.kind() === address.kind() && address.match(network, bits);
  });
  if (range === undefined) return judgeByKind(address);
  // A rule that allows a translation prefix as a whole must not allow 127.0.0.1 behind it.
  const embedded = address instanceof ipaddr.IPv6 ? embeddedIPv4(address) : undefined;
  const ruling = embedded && judge(embedded, ranges);
  if (ruling?.allowed === false) return { allowed: false, rule: `${ruling.rule} (${embedded})` };
  return { allowed: true, rule: `egress.allow ${range.text}` };
}

function judgeByKind(address: IpAddress): EgressRuling {
  const range = address.range();
  if (range !== 'unicast') return { allowed: false, rule: RANGE_NAMES[range] ?? range };
  if (address instanceof ipaddr.IPv6) {
    if (!address.match(PUBLIC_IPV6)) return { allowed: false, rule: 'reserved' };
    if (isIsatap(address.parts)) return { allowed: false, rule: 'ISATAP' };
  }
  return { allowed: true, rule: 'public' };
}

/**
 * The IPv4 address that a translating or tunnelling network would send to. Undefined for addresses of no such
 * scheme, among them `::` and `::1`, which look like `::0.0.0.0` and `::0.0.0.1`.
 */
function embeddedIPv4(address: ipaddr.IPv6): ipaddr.IPv4 | undefined {
  const [, b = 0, c = 0, , , , g = 0, h = 0] = address.parts;
  switch (address.range()) {
    case 'unspecified':
    case 'loopback':
      return undefined;
    case 'rfc6145':
      return ipv4(g, h);
    case 'rfc6052':
      // In 64:ff9b:1::/48 (RFC 8215) the position depends on an unknown prefix length; the end is usual.
      return ipv4(g, h);
    case '6to4':
      return ipv4(b, c);
    case 'teredo':
      return ipv4(g ^ 0xffff, h ^ 0xffff);
    default:
      return isCompatible(address.parts) || isIsatap(address.parts) ? ipv4(g, h) : undefined;
  }
}

/** `::a.b.c.d`, deprecated by RFC 4291, but some stacks still send it to a.b.c.d. */
function isCompatible(parts: readonly number[]): boolean {
  return parts.slice(0, 6).every((part) => part === 0);
}

/** RFC 5214: `…:0:5efe:a.b.c.d` and `…:200:5efe:a.b.c.d` in any network; its router sends to a.b.c.d. */
function isIsatap(parts: readonly number[]): boolean {
  return (parts[4] === 0 || parts[4] === 0x200) && parts[5] === 0x5efe;
}

function ipv4(high: number, low: number): ipaddr.IPv4 {
  return new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff]);
}

/**
 * Resolves a host to the addresses that requests may go to. A literal address is checked as it is. The
 * refused addresses of a name are left out, and the name is refused when none is left: `localhost` is often
 * both `::1` and `127.0.0.1`, of which one is allowed. `hostname` is as `URL` gives it; brackets of IPv6 are
 * allowed. Never rejects.
 *
 * The caller must connect to the addresses given here and not look the name up again: the next answer may be
 * another one.
 */
export function resolveAllowed(
  hostname: string,
  rules: EgressRules,
  lookup: DnsLookup,
): Promise<EgressResolution> {
  const literal = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  const family = isIP(literal);
  if (family !== 0) return Promise.resolve(checkAddresses(literal, [{ address: literal, family }], rules));
  return new Promise((resolve) => {
    lookup(hostname, { all: true }, (error, addresses) => {
      if (error !== null || addresses.length === 0) {
        const cause = error?.code ?? 'no address';
        resolve({ kind: 'unresolved', message: `${hostname} does not resolve (${cause})` });
      } else {
        resolve(checkAddresses(hostname, addresses, rules));
      }
    });
  });
}

/** Checks the addresses of a host. There must be at least one. */
export function checkAddresses(
  hostname: string,
  found: readonly LookupAddress[],
  rules: EgressRules,
): EgressResolution {
  const checked = found.map(({ address, family }) => ({ address, family, ...rules.check(address) }));
  const addresses = checked
    .filter(({ allowed }) => allowed)
    .map(({ address, family, rule }) => ({ address, family, rule }));
  if (addresses.length > 0) return { kind: 'allowed', addresses };
  const { address, rule } = checked[0]!;
  const subject = address === hostname ? address : `${hostname} resolves to ${address}, which`;
  const message = `${subject} is refused as ${rule}; add it to egress.allow if it is yours`;
  return { kind: 'refused', address, rule, message };
}
