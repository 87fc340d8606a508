import { describe, expect, test } from 'vitest';
import { sourceWith } from '../../test/support/sources.ts';
import { egressRules } from '../adapters/http-client/egress.ts';
import { ADDRESS_RULES, type AddressRule } from '../model/settings.ts';
import { LOCAL_RANGES } from './address.ts';
import { indexWriteKeys } from './calls.ts';
import { parseRequest } from './parse.ts';

const BROWSER = { library: { name: 'analytics.js', version: '2.1.0' } };

/**
 * The `context.ip` of the event, and what was counted. The blank makes the plain way read it, without one it
 * is scanned.
 */
function addressOf(
  ip: AddressRule | undefined,
  context: object,
  { from = '203.0.113.44', isFromBrowser = false }: { from?: string; isFromBrowser?: boolean } = {},
): [ip: unknown, counts: object | undefined] {
  const keys = indexWriteKeys([ip === undefined ? sourceWith() : sourceWith({ ip })], 'refuse');
  const call = JSON.stringify({ userId: 'u1', event: 'E', messageId: 'm1', context });
  const [scanned, parsed] = [call, ` ${call}`].map((text) => {
    const read = parseRequest(
      {
        ...{ type: 'track', writeKey: 'wk', body: Buffer.from(text), receivedAt: 0 },
        ...{ peer: { remoteAddress: from } },
        ...(isFromBrowser ? { isFromBrowser } : {}),
      },
      keys,
      () => 'assigned',
    );
    if (read.kind === 'refused') throw new Error(read.code);
    return [read.events[0]!.event.context['ip'], read.changes.get(1)?.counts] as [
      unknown,
      object | undefined,
    ];
  });
  expect(scanned).toEqual(parsed);
  return parsed!;
}

describe('the address of the caller', () => {
  test.each([
    ['127.0.0.1', undefined],
    ['::1', undefined],
    ['10.1.2.3', undefined],
    ['::ffff:10.1.2.3', undefined],
    ['172.31.255.255', undefined],
    ['172.32.0.1', '172.32.0.1'],
    ['192.168.7.7', undefined],
    ['100.64.0.1', undefined],
    ['169.254.1.1', undefined],
    ['0.0.0.0', undefined],
    ['fe80::1%eth0', undefined],
    ['fd12:3456::1', undefined],
    ['fec0::1', undefined],
    ['::', undefined],
    ['::2', '::2'],
    ['2001:DB8:0:0::7', '2001:db8::7'],
    ['::ffff:cb00:712c', '203.0.113.44'],
    ['nonsense', undefined],
  ])('%s is filled in as %s', (from, ip) => {
    expect(addressOf('keep', BROWSER, { from })).toEqual([ip, undefined]);
    expect(addressOf('direct', { direct: true }, { from })).toEqual([ip, undefined]);
  });

  test('that means something in one network alone is one that no request goes to either', () => {
    const egress = egressRules([]);
    for (const [address] of LOCAL_RANGES)
      expect([address, egress.check(address).allowed]).toEqual([address, false]);
  });

  test('of an image is filled in whatever its library, where the source fills in any', () => {
    const filled = ADDRESS_RULES.map((ip) => addressOf(ip, {}, { isFromBrowser: true })[0]);
    expect(filled).toEqual(['203.0.113.44', '203.0.113.0', undefined, undefined]);
  });

  test('of a source that nobody has asked is filled in for direct calls alone', () => {
    expect(addressOf(undefined, BROWSER)).toEqual([undefined, undefined]);
    expect(addressOf(undefined, { direct: true })).toEqual(['203.0.113.44', undefined]);
  });
});

describe('an address that the client gives', () => {
  const shortened = { shortened_addresses: 1 };
  const dropped = { dropped_addresses: 1 };

  test.each([
    ['198.51.100.77', '198.51.100.0', shortened],
    ['198.51.100.0', '198.51.100.0', undefined],
    ['0.0.0.0', '0.0.0.0', undefined],
    ['::ffff:198.51.100.77', '198.51.100.0', shortened],
    ['2001:db8:a:b:c::7', '2001:db8:a::', shortened],
    ['2001::1:2:3:4:5', '2001::', shortened],
    ['::1:2:3:4:5:6', '0:0:1::', shortened],
    ['fe80::1%eth0', 'fe80::', shortened],
    ['198.51.100.77, 10.0.0.1', undefined, dropped],
    ['', undefined, dropped],
    [7, undefined, dropped],
    [{ v4: '198.51.100.77' }, undefined, dropped],
  ])('as %j is %j in a source that shortens, and the change is counted', (ip, kept, counts) => {
    expect(addressOf('shorten', { ...BROWSER, ip })).toEqual([kept, counts]);
    expect(addressOf('shorten', { direct: true, ip })).toEqual([kept, counts]);
  });

  test('is removed from a source that drops addresses, and counted', () => {
    for (const ip of ['198.51.100.77', '', 7, {}])
      expect(addressOf('drop', { ip })).toEqual([undefined, dropped]);
    expect(addressOf('drop', { ip: null })).toEqual([null, undefined]);
  });

  test('stays as it is in any other source', () => {
    for (const rule of ['keep', 'direct'] as const)
      for (const ip of ['10.0.0.1', '', 7, 'far away'])
        expect(addressOf(rule, { ...BROWSER, ip })).toEqual([ip, undefined]);
  });
});
