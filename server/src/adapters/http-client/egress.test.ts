import { describe, expect, test } from 'vitest';
import { type DnsLookup, egressRules, resolveAllowed } from './egress.ts';

const none = egressRules([]);

/** Answers as a machine does that knows nothing but these names. */
function names(answers: Record<string, string[]>): DnsLookup {
  return (hostname, _options, done) => {
    const addresses = answers[hostname];
    if (addresses === undefined) done(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), []);
    else
      done(
        null,
        addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      );
  };
}

describe('without an allow-list', () => {
  test.each(['1.1.1.1', '93.184.215.14', '172.32.0.1', '100.128.0.1', '2606:4700::1111', '::ffff:1.1.1.1'])(
    '%s is public',
    (address) => {
      expect(none.check(address)).toEqual({ allowed: true, rule: 'public' });
    },
  );

  test.each([
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['0.0.0.0', 'unspecified'],
    ['0.1.2.3', 'unspecified'],
    ['10.0.0.1', 'private'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.1.1', 'private'],
    ['169.254.169.254', 'link-local'],
    ['100.64.0.1', 'carrier-grade NAT'],
    ['192.0.0.1', 'reserved'],
    ['192.0.2.1', 'reserved'],
    ['198.18.0.1', 'reserved'],
    ['198.51.100.1', 'reserved'],
    ['203.0.113.1', 'reserved'],
    ['240.0.0.1', 'reserved'],
    ['224.0.0.1', 'multicast'],
    ['255.255.255.255', 'broadcast'],
    ['::', 'unspecified'],
    ['::1', 'loopback'],
    ['fe80::1', 'link-local'],
    ['fe80::1%eth0', 'link-local'],
    ['fe80::1%eth0.1', 'link-local'],
    ['fc00::1', 'unique local'],
    ['fd00:ec2::254', 'unique local'],
    ['fec0::1', 'site-local'],
    ['ff02::1', 'multicast'],
    ['2001:db8::1', 'reserved'],
    ['100::1', 'discard'],
    ['4000::1', 'reserved'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'loopback'],
    ['::ffff:169.254.169.254', 'link-local'],
    ['::127.0.0.1', 'reserved'],
    ['::8.8.8.8', 'reserved'],
    ['::ffff:0:127.0.0.1', 'IPv4-translated'],
    ['64:ff9b::7f00:1', 'NAT64'],
    ['64:ff9b::8.8.8.8', 'NAT64'],
    ['64:ff9b:1::7f00:1', 'NAT64'],
    ['2002:7f00:1::', '6to4'],
    ['2001:0:4136:e378:8000:63bf:3fff:fdd2', 'Teredo'],
  ])('%s is refused as %s', (address, rule) => {
    expect(none.check(address)).toEqual({ allowed: false, rule });
  });

  test.each([
    '',
    'localhost',
    '1.1.1',
    '0x7f.1',
    '2130706433',
    '127.0.0.1:80',
    '[::1]',
    '1.1.1.1/32',
    '::1%',
  ])('"%s" is refused, being no address', (text) => {
    expect(none.check(text)).toEqual({ allowed: false, rule: 'not an IP address' });
  });
});

describe('with an allow-list', () => {
  test.each([
    [['10.20.0.0/16'], '10.20.3.4', 'egress.allow 10.20.0.0/16'],
    [['10.20.0.0/16'], '::ffff:10.20.3.4', 'egress.allow 10.20.0.0/16'],
    [['192.168.0.0/16', '127.0.0.1/32'], '127.0.0.1', 'egress.allow 127.0.0.1/32'],
    [['fd00::/8'], 'fd12::1', 'egress.allow fd00::/8'],
    [['0.0.0.0/0'], '127.0.0.1', 'egress.allow 0.0.0.0/0'],
    [['10.0.0.0/8'], '1.1.1.1', 'public'],
    [['64:ff9b::/96'], '64:ff9b::8.8.8.8', 'egress.allow 64:ff9b::/96'],
    [['64:ff9b::/96', '10.0.0.0/8'], '64:ff9b::10.0.0.1', 'egress.allow 64:ff9b::/96'],
    [['2002::/16'], '2002:808:808::1', 'egress.allow 2002::/16'],
    [['::1/128'], '::1', 'egress.allow ::1/128'],
    [['::/0'], '::1', 'egress.allow ::/0'],
    [['::/0'], '::', 'egress.allow ::/0'],
    [['::/96'], '::8.8.8.8', 'egress.allow ::/96'],
    [['fd00::/8'], 'fd00::5efe:8.8.8.8', 'egress.allow fd00::/8'],
    [['fd00::/8', '10.0.0.0/8'], 'fd00::200:5efe:10.0.0.1', 'egress.allow fd00::/8'],
  ])('%j allows %s', (allow, address, rule) => {
    expect(egressRules(allow).check(address)).toEqual({ allowed: true, rule });
  });

  test.each([
    [['10.20.0.0/16'], '10.21.0.1', 'private'],
    [['127.0.0.1/32'], '127.0.0.2', 'loopback'],
    [['0.0.0.0/0'], '::1', 'loopback'],
    [['::/0'], '127.0.0.1', 'loopback'],
    [['::/0'], '::ffff:127.0.0.1', 'loopback'],
    [['::/0'], '::127.0.0.1', 'loopback (127.0.0.1)'],
    [['64:ff9b::/96'], '64:ff9b::127.0.0.1', 'loopback (127.0.0.1)'],
    [['64:ff9b::/96'], '64:ff9b::a9fe:a9fe', 'link-local (169.254.169.254)'],
    [['2002::/16'], '2002:7f00:1::1', 'loopback (127.0.0.1)'],
    [['::ffff:0:0:0/96'], '::ffff:0:10.0.0.1', 'private (10.0.0.1)'],
    [['::/0'], '::2', 'unspecified (0.0.0.2)'],
    [['fd00::/8'], 'fd00::5efe:10.0.0.1', 'private (10.0.0.1)'],
    // Teredo keeps the address with every bit turned over.
    [['2001::/32'], '2001:0:4136:e378:8000:63bf:80ff:fffe', 'loopback (127.0.0.1)'],
  ])('%j does not allow %s', (allow, address, rule) => {
    expect(egressRules(allow).check(address)).toEqual({ allowed: false, rule });
  });

  test.each([
    ['10.0.0.1', 'egress.allow: "10.0.0.1" is an address, not a range; write 10.0.0.1/32'],
    ['::1', 'egress.allow: "::1" is an address, not a range; write ::1/128'],
    ['10.0.0.0/33', 'egress.allow: "10.0.0.0/33" is not a range of addresses such as 10.20.0.0/16'],
    ['10.0/16', 'egress.allow: "10.0/16" is not a range of addresses such as 10.20.0.0/16'],
    ['10.0.0.0/', 'egress.allow: "10.0.0.0/" is not a range of addresses such as 10.20.0.0/16'],
    ['example.com', 'egress.allow: "example.com" is not a range of addresses such as 10.20.0.0/16'],
    ['', 'egress.allow: "" is not a range of addresses such as 10.20.0.0/16'],
    [
      '::ffff:10.0.0.0/104',
      'egress.allow: "::ffff:10.0.0.0/104" is a range of IPv4 addresses; write it as one',
    ],
  ])('"%s" is not taken', (text, message) => {
    expect(() => egressRules(['10.0.0.0/8', text])).toThrow(new Error(message));
  });
});

describe('a host', () => {
  const lookup = names({
    'hooks.example': ['1.1.1.1', '2606:4700::1111'],
    'mixed.example': ['1.1.1.1', '10.0.0.5'],
    'empty.example': [],
    'localhost.': ['127.0.0.1'],
    localhost: ['::1', '127.0.0.1'],
  });

  test('is allowed with every address and the rule that allows it', async () => {
    const rules = egressRules(['10.0.0.0/8']);
    expect(await resolveAllowed('mixed.example', rules, lookup)).toEqual({
      kind: 'allowed',
      addresses: [
        { address: '1.1.1.1', family: 4, rule: 'public' },
        { address: '10.0.0.5', family: 4, rule: 'egress.allow 10.0.0.0/8' },
      ],
    });
  });

  test('is connected to over its allowed addresses alone', async () => {
    expect(await resolveAllowed('mixed.example', none, lookup)).toEqual({
      kind: 'allowed',
      addresses: [{ address: '1.1.1.1', family: 4, rule: 'public' }],
    });
    expect(await resolveAllowed('localhost', egressRules(['127.0.0.0/8']), lookup)).toEqual({
      kind: 'allowed',
      addresses: [{ address: '127.0.0.1', family: 4, rule: 'egress.allow 127.0.0.0/8' }],
    });
  });

  test('is refused when all of its addresses are', async () => {
    expect(await resolveAllowed('localhost', none, lookup)).toEqual({
      kind: 'refused',
      address: '::1',
      rule: 'loopback',
      message:
        'localhost resolves to ::1, which is refused as loopback; add it to egress.allow if it is yours',
    });
  });

  // As the URL of an endpoint may spell them; `URL` brings most into the usual form, what it leaves is looked
  // up.
  test.each([
    ['http://127.0.0.1/', '127.0.0.1'],
    ['http://127.1/', '127.0.0.1'],
    ['http://0x7f.1/', '127.0.0.1'],
    ['http://0177.0.0.1/', '127.0.0.1'],
    ['http://2130706433/', '127.0.0.1'],
    ['http://0x7f000001/', '127.0.0.1'],
    ['http://127.0.0.1./', '127.0.0.1'],
    ['http://１２７.０.０.１/', '127.0.0.1'],
    ['http://0.0.0.0/', '0.0.0.0'],
    ['http://0/', '0.0.0.0'],
    ['http://[::1]/', '::1'],
    ['http://[::]/', '::'],
    ['http://[::ffff:127.0.0.1]/', '::ffff:7f00:1'],
    ['http://[0:0:0:0:0:ffff:7f00:0001]/', '::ffff:7f00:1'],
    ['http://[::127.0.0.1]/', '::7f00:1'],
    ['http://[64:ff9b::127.0.0.1]/', '64:ff9b::7f00:1'],
    ['http://localhost/', '::1'],
    ['http://LOCALHOST/', '::1'],
    ['http://localhost./', '127.0.0.1'],
    ['http://user@localhost:80@169.254.169.254/', '169.254.169.254'],
  ])('%s is refused at %s', async (url, address) => {
    const resolution = await resolveAllowed(new URL(url).hostname, none, lookup);
    expect(resolution).toMatchObject({ kind: 'refused', address });
  });

  test('that is a public literal is not looked up', async () => {
    const never: DnsLookup = () => {
      throw new Error('looked up');
    };
    expect(await resolveAllowed('[2606:4700::1111]', none, never)).toEqual({
      kind: 'allowed',
      addresses: [{ address: '2606:4700::1111', family: 6, rule: 'public' }],
    });
  });

  test.each([
    ['nowhere.example', 'nowhere.example does not resolve (ENOTFOUND)'],
    ['empty.example', 'empty.example does not resolve (no address)'],
  ])('%s is unresolved', async (hostname, message) => {
    expect(await resolveAllowed(hostname, none, lookup)).toEqual({ kind: 'unresolved', message });
  });
});
