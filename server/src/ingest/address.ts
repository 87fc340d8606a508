import { BlockList, isIP } from 'node:net';
import type { JsonObject } from '../model/json.ts';
import { isClientLibrary } from '../model/libraries.ts';
import { type AddressRule, addressRuleOf, type Source } from '../model/settings.ts';
import type { Envelope } from './envelope.ts';

/** The rule of a source for `context.ip`. */
export interface AddressWish {
  /** Fill it in for calls that come straight from a browser or a phone. */
  readonly fills: boolean;
  /** Fill it in for calls that ask for it. */
  readonly fillsDirect: boolean;
  /** Keep the client's own as it is. */
  readonly keepsOwn: boolean;
  readonly shortens: boolean;
}

const WISHES: Readonly<Record<AddressRule, AddressWish>> = {
  keep: { fills: true, fillsDirect: true, keepsOwn: true, shortens: false },
  shorten: { fills: true, fillsDirect: true, keepsOwn: false, shortens: true },
  drop: { fills: false, fillsDirect: false, keepsOwn: false, shortens: false },
  direct: { fills: false, fillsDirect: true, keepsOwn: true, shortens: false },
};

export function addressWishOf(source: Source): AddressWish {
  return WISHES[addressRuleOf(source)];
}

/**
 * The context with the address that its event may have: the client's own, else that of the caller, where the
 * call comes straight from a browser or a phone. A change of the client's own is counted.
 * spec/specification.md, "Address of the client".
 */
export function withAddress(context: JsonObject, envelope: Envelope, wish: AddressWish): JsonObject {
  const { ip } = context;
  if (ip !== undefined && ip !== null) return wish.keepsOwn ? context : withoutOwn(context, envelope, wish);
  const isAsked = context.direct === true && wish.fillsDirect;
  if (!isAsked && !(wish.fills && (envelope.isFromBrowser || isClientLibrary(context)))) return context;
  const address = callerAddress(envelope, wish);
  return address === undefined ? context : { ...context, ip: address };
}

function withoutOwn(context: JsonObject, { changes }: Envelope, { shortens }: AddressWish): JsonObject {
  const { ip, ...rest } = context;
  const address = shortens && typeof ip === 'string' ? plainAddress(ip) : undefined;
  if (address === undefined) {
    changes.note('dropped_addresses');
    return rest;
  }
  const beginning = shortened(address);
  if (beginning === ip) return context;
  changes.note('shortened_addresses');
  return { ...context, ip: beginning };
}

/**
 * The address that the call came from, as it may be stored; undefined where it is none that others could know
 * the caller by.
 */
export function callerAddress(
  { peer }: Pick<Envelope, 'peer'>,
  { shortens }: AddressWish,
): string | undefined {
  const said = peer?.remoteAddress;
  const address = said === undefined ? undefined : plainAddress(said);
  if (address === undefined || isLocal(address)) return undefined;
  return shortens ? shortened(address) : address;
}

/**
 * Addresses that mean something in one network alone. Requests may go to fewer still:
 * adapters/http-client/egress.ts refuses everything that is not public, such as what is reserved for
 * documents.
 */
export const LOCAL_RANGES: readonly (readonly [address: string, bits: number, family: 'ipv4' | 'ipv6'])[] = [
  ['0.0.0.0', 8, 'ipv4'],
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['::', 127, 'ipv6'],
  ['fc00::', 7, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['fec0::', 10, 'ipv6'],
];

const LOCAL = new BlockList();
for (const [address, bits, family] of LOCAL_RANGES) LOCAL.addSubnet(address, bits, family);

function isLocal(address: string): boolean {
  return LOCAL.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

/** As a listener on IPv6 tells of its IPv4 callers, which is most of them. */
const MAPPED = /^::ffff:(?=\d+\.)/i;

/**
 * An address as it is written shortest, IPv4 behind `::ffff:` as IPv4 and without the zone; undefined when
 * the text is none.
 */
function plainAddress(text: string): string | undefined {
  const address = text.replace(MAPPED, '');
  const family = isIP(address);
  if (family !== 6) return family === 4 ? address : undefined;
  const groups = groupsOf(address);
  if (groups.slice(0, 5).some((group) => group !== 0) || groups[5] !== 0xffff) return addressOf(groups);
  const [high = 0, low = 0] = groups.slice(6);
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
}

/** An IPv4 address without its last number; the 48 bits of an IPv6 address that name a site. */
function shortened(address: string): string {
  if (isIP(address) === 4) return address.replace(/\d+$/, '0');
  return addressOf(groupsOf(address).map((group, nth) => (nth < 3 ? group : 0)));
}

/**
 * The network of an internet address: the address itself, or for IPv6 its first 64 bits, all of whose
 * addresses belong to one customer. Undefined for an address that is valid in one network only, and for a
 * text that is no address.
 */
export function publicNetworkOf(text: string): string | undefined {
  const address = plainAddress(text);
  if (address === undefined || isLocal(address)) return undefined;
  if (isIP(address) === 4) return address;
  return addressOf(groupsOf(address).map((group, nth) => (nth < 4 ? group : 0)));
}

/** The eight numbers of an IPv6 address. */
function groupsOf(address: string): number[] {
  const [head = '', tail = ''] = shortestForm(address.replace(/%.*/, '')).split('::');
  const [before, after] = [head, tail].map((part) => (part === '' ? [] : part.split(':'))) as [
    string[],
    string[],
  ];
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16));
}

function addressOf(groups: readonly number[]): string {
  return shortestForm(groups.map((group) => group.toString(16)).join(':'));
}

/** `URL` writes IPv6 as RFC 5952 wants it, also one whose end is written like IPv4. */
function shortestForm(address: string): string {
  return new URL(`http://[${address}]`).hostname.slice(1, -1);
}
