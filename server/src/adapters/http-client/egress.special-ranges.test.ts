import ipaddr from 'ipaddr.js';
import { describe, expect, test } from 'vitest';
import { egressRules } from './egress.ts';

/**
 * Every range of the IANA special-purpose registries, and of multicast and the deprecated ranges beside them:
 * the rule that refuses it, and the rules of the addresses just before and just after it. The end of a family
 * has no neighbour.
 */
type Row = readonly [range: string, rule: string, before: string | undefined, after: string | undefined];

const IPV4: readonly Row[] = [
  ['0.0.0.0/8', 'unspecified', undefined, 'public'],
  ['10.0.0.0/8', 'private', 'public', 'public'],
  ['100.64.0.0/10', 'carrier-grade NAT', 'public', 'public'],
  ['127.0.0.0/8', 'loopback', 'public', 'public'],
  ['169.254.0.0/16', 'link-local', 'public', 'public'],
  ['172.16.0.0/12', 'private', 'public', 'public'],
  ['192.0.0.0/24', 'reserved', 'public', 'public'],
  ['192.0.2.0/24', 'reserved', 'public', 'public'],
  ['192.31.196.0/24', 'AS112', 'public', 'public'],
  ['192.52.193.0/24', 'AMT', 'public', 'public'],
  ['192.88.99.0/24', 'reserved', 'public', 'public'],
  ['192.168.0.0/16', 'private', 'public', 'public'],
  ['192.175.48.0/24', 'AS112', 'public', 'public'],
  ['198.18.0.0/15', 'reserved', 'public', 'public'],
  ['198.51.100.0/24', 'reserved', 'public', 'public'],
  ['203.0.113.0/24', 'reserved', 'public', 'public'],
  ['224.0.0.0/4', 'multicast', 'public', 'reserved'],
  ['240.0.0.0/5', 'reserved', 'multicast', 'reserved'],
  ['255.255.255.255/32', 'broadcast', 'reserved', undefined],
];

const IPV6: readonly Row[] = [
  ['::/128', 'unspecified', undefined, 'loopback'],
  ['::1/128', 'loopback', 'unspecified', 'reserved'],
  // The deprecated ::a.b.c.d, without the two above.
  ['::2/127', 'reserved', 'loopback', 'reserved'],
  ['::ffff:0:0:0/96', 'IPv4-translated', 'reserved', 'reserved'],
  ['64:ff9b::/96', 'NAT64', 'reserved', 'reserved'],
  ['64:ff9b:1::/48', 'NAT64', 'reserved', 'reserved'],
  ['100::/64', 'discard', 'reserved', 'reserved'],
  ['100:0:0:1::/64', 'reserved', 'discard', 'reserved'],
  ['1fff:ffff::/32', 'reserved', 'reserved', 'public'],
  ['2001::/32', 'Teredo', 'public', 'reserved'],
  ['2001:1::1/128', 'reserved', 'reserved', 'reserved'],
  ['2001:1::2/128', 'reserved', 'reserved', 'reserved'],
  ['2001:1::3/128', 'reserved', 'reserved', 'reserved'],
  ['2001:2::/48', 'benchmarking', 'reserved', 'reserved'],
  ['2001:3::/32', 'AMT', 'reserved', 'reserved'],
  ['2001:4:112::/48', 'AS112', 'reserved', 'reserved'],
  ['2001:10::/28', 'ORCHID', 'reserved', 'ORCHIDv2'],
  ['2001:20::/28', 'ORCHIDv2', 'ORCHID', 'drone remote ID'],
  ['2001:30::/28', 'drone remote ID', 'ORCHIDv2', 'reserved'],
  // The end of 2001::/23.
  ['2001:1ff::/32', 'reserved', 'reserved', 'public'],
  ['2001:db8::/32', 'reserved', 'public', 'public'],
  ['2002::/16', '6to4', 'public', 'public'],
  ['2620:4f:8000::/48', 'AS112', 'public', 'public'],
  ['3fff::/20', 'reserved', 'public', 'public'],
  ['4000::/3', 'reserved', 'public', 'reserved'],
  ['5f00::/16', 'segment routing', 'reserved', 'reserved'],
  ['fc00::/7', 'unique local', 'reserved', 'reserved'],
  ['fe80::/10', 'link-local', 'reserved', 'site-local'],
  ['fec0::/10', 'site-local', 'link-local', 'multicast'],
  ['ff00::/8', 'multicast', 'site-local', undefined],
];

type Bytes = readonly number[];

/** Every way in which an IPv6 address carries an IPv4 one, as a range that can be allowed. */
const CARRIERS: readonly (readonly [range: string, carry: (bytes: Bytes) => Bytes])[] = [
  ['::/96', (bytes) => padded([], bytes)],
  ['::ffff:0:0:0/96', (bytes) => padded([0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0], bytes)],
  ['64:ff9b::/96', (bytes) => padded([0, 0x64, 0xff, 0x9b], bytes)],
  ['64:ff9b:1::/48', (bytes) => padded([0, 0x64, 0xff, 0x9b, 0, 1], bytes)],
  ['2002::/16', (bytes) => padded([0x20, 2, ...bytes], [0, 0, 0, 1])],
  [
    '2001::/32',
    (bytes) =>
      padded(
        [0x20, 1],
        bytes.map((byte) => byte ^ 0xff),
      ),
  ],
  ['fd00::/8', (bytes) => padded([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x5e, 0xfe], bytes)],
  ['fd00::/8', (bytes) => padded([0xfd, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0x5e, 0xfe], bytes)],
];

/** 16 bytes: these at the start, those at the end. */
function padded(start: Bytes, end: Bytes): Bytes {
  return [...start, ...Array<number>(16 - start.length - end.length).fill(0), ...end];
}

function boundsOf(range: string) {
  const [network, bits] = ipaddr.parseCIDR(range);
  const start = network.toByteArray();
  const end = start.map(
    (byte, at) => byte | (at < bits >> 3 ? 0 : at === bits >> 3 ? 0xff >> (bits & 7) : 0xff),
  );
  return { first: text(start), last: text(end), before: text(moved(start, -1)), after: text(moved(end, 1)) };
}

/** The next address, or the one before. */
function moved(bytes: Bytes, by: 1 | -1): Bytes {
  const result = [...bytes];
  for (let at = result.length - 1; at >= 0; at--) {
    const sum = result[at]! + by;
    result[at] = sum & 0xff;
    if (sum === result[at]) break;
  }
  return result;
}

function text(bytes: Bytes): string {
  return ipaddr.fromByteArray([...bytes]).toString();
}

const none = egressRules([]);
const ruleOf = (address: string) => {
  const { allowed, rule } = none.check(address);
  expect({ address, allowed }).toEqual({ address, allowed: rule === 'public' });
  return rule;
};

describe('without an allow-list', () => {
  test.each([...IPV4, ...IPV6])(
    '%s is refused as %s, from its first address to its last',
    (range, rule, before, after) => {
      const bounds = boundsOf(range);
      expect([ruleOf(bounds.first), ruleOf(bounds.last)]).toEqual([rule, rule]);
      if (before !== undefined)
        expect([bounds.before, ruleOf(bounds.before)]).toEqual([bounds.before, before]);
      if (after !== undefined) expect([bounds.after, ruleOf(bounds.after)]).toEqual([bounds.after, after]);
    },
  );

  test.each(IPV4)('%s is refused as %s in mapped form too', (range, rule) => {
    const { first, last } = boundsOf(range);
    expect([ruleOf(`::ffff:${first}`), ruleOf(`::ffff:${last}`)]).toEqual([rule, rule]);
  });

  test.each(['2606:4700::5efe:10.0.0.1', '2606:4700::200:5efe:8.8.8.8'])(
    '%s is refused as ISATAP',
    (address) => {
      expect(ruleOf(address)).toBe('ISATAP');
    },
  );
});

describe('a range that is allowed', () => {
  test.each([...IPV4, ...IPV6])(
    '%s is allowed whole, whatever it looks like, and nothing beside it',
    (range) => {
      const { first, last, before, after } = boundsOf(range);
      const rules = egressRules([range]);
      const allowed = { allowed: true, rule: `egress.allow ${range}` };
      // These carry addresses of the other family, which have to be allowed themselves.
      if (!CARRIERS.some(([carrier]) => carrier === range) && range !== '::2/127' && range !== 'fc00::/7') {
        expect([rules.check(first), rules.check(last)]).toEqual([allowed, allowed]);
      }
      for (const neighbour of [before, after]) expect(rules.check(neighbour)).toEqual(none.check(neighbour));
    },
  );

  test.each(CARRIERS)('%s does not open the way to any special range behind it', (range, carry) => {
    const rules = egressRules([range]);
    for (const [inner, rule] of IPV4) {
      const { first, last } = boundsOf(inner);
      for (const address of [first, last]) {
        // These two are addresses of their own: :: and ::1.
        const carried = text(carry(ipaddr.parse(address).toByteArray()));
        if (carried === '::' || carried === '::1') continue;
        expect([carried, rules.check(carried)]).toEqual([
          carried,
          { allowed: false, rule: `${rule} (${address})` },
        ]);
      }
    }
    const open = text(carry([8, 8, 8, 8]));
    expect([open, rules.check(open)]).toEqual([open, { allowed: true, rule: `egress.allow ${range}` }]);
  });
});
