import { describe, expect, it } from 'vitest';
import type { DnsLookup } from './egress.ts';
import { endpointProblems, explainEgress, judgeEndpoints, literalRefusal } from './egress-report.ts';

const names =
  (known: Record<string, readonly string[]>): DnsLookup =>
  (host, _options, done) => {
    const found = known[host]?.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    if (found === undefined) done(Object.assign(new Error('no'), { code: 'ENOTFOUND' }), []);
    else done(null, found);
  };
const lookup = names({
  'hooks.example': ['93.184.215.14', '2606:4700::1111'],
  'mixed.example': ['93.184.215.14', '10.20.0.7'],
  'inside.example': ['10.20.0.7'],
});

describe('the explanation of a URL', () => {
  it('names the rule of every address, and the address that is used', async () => {
    expect(await explainEgress('https://hooks.example/x?token=t', { allow: [] }, lookup)).toEqual({
      url: 'https://hooks.example/x',
      host: 'hooks.example',
      port: 443,
      verdict: 'allowed',
      addresses: [
        { address: '93.184.215.14', allowed: true, rule: 'public' },
        { address: '2606:4700::1111', allowed: true, rule: 'public' },
      ],
      used: '93.184.215.14',
      message: 'requests are sent',
    });
  });

  it('uses the allowed addresses of a name, and shows which of them are refused', async () => {
    expect(await explainEgress('http://mixed.example:8080/', { allow: [] }, lookup)).toMatchObject({
      port: 8080,
      verdict: 'allowed',
      used: '93.184.215.14',
      addresses: [{ allowed: true }, { address: '10.20.0.7', allowed: false, rule: 'private' }],
    });
    const allowed = await explainEgress('http://mixed.example/', { allow: ['10.20.0.0/16'] }, lookup);
    expect(allowed).toMatchObject({
      verdict: 'allowed',
      addresses: [{ rule: 'public' }, { rule: 'egress.allow 10.20.0.0/16' }],
    });
  });

  it('refuses a name with private addresses alone, and says what would allow it', async () => {
    expect(await explainEgress('http://inside.example/', { allow: [] }, lookup)).toMatchObject({
      verdict: 'refused',
      addresses: [{ address: '10.20.0.7', allowed: false, rule: 'private' }],
      message:
        'inside.example resolves to 10.20.0.7, which is refused as private; add it to egress.allow if it is yours',
    });
  });

  it.each([
    ['http://127.0.0.1:4000/', '127.0.0.1', 'loopback'],
    ['http://2130706433/', '127.0.0.1', 'loopback'],
    ['http://[::ffff:169.254.169.254]/', '::ffff:a9fe:a9fe', 'link-local'],
    ['http://[64:ff9b::10.0.0.1]/', '64:ff9b::a00:1', 'NAT64'],
  ])('reads %s as %s', async (url, address, rule) => {
    expect(await explainEgress(url, { allow: [] }, lookup)).toMatchObject({
      verdict: 'refused',
      addresses: [{ address, allowed: false, rule }],
    });
  });

  it('says when a name has no address, and when there is no URL', async () => {
    expect(await explainEgress('http://nowhere.example/', { allow: [] }, lookup)).toMatchObject({
      verdict: 'unresolved',
      addresses: [],
      message: 'nowhere.example does not resolve',
    });
    for (const text of ['hooks.example', 'ftp://hooks.example/', '']) {
      expect(await explainEgress(text, { allow: [] }, lookup)).toMatchObject({ verdict: 'invalid' });
    }
  });

  it('names the proxy that requests go through, without its password', async () => {
    const settings = { allow: [], proxy: 'http://u:geheim@proxy.internal:3128' };
    const explained = await explainEgress('http://hooks.example/', settings, lookup);
    expect(explained.proxy).toBe('proxy.internal:3128');
    expect(JSON.stringify(explained)).not.toContain('geheim');
  });
});

describe('the endpoints of settings', () => {
  it('are listed when no request would reach them, with destination and place', async () => {
    const urls = ['http://hooks.example/', 'http://10.0.0.1/', 'http://nowhere.example/'];
    const targets = urls.map((address, place) => ({ place, label: address, address }));
    expect(await endpointProblems([{ name: 'crm', targets }], { allow: [] }, lookup)).toEqual([
      {
        destination: 'crm',
        place: 1,
        verdict: 'refused',
        message: '10.0.0.1 is refused as private; add it to egress.allow if it is yours',
      },
      {
        destination: 'crm',
        place: 2,
        verdict: 'unresolved',
        message: 'nowhere.example does not resolve',
      },
    ]);
  });
});

describe('the URLs of settings that are to be saved', () => {
  it('are judged in the words of an explanation, each name looked up once', async () => {
    const asked: string[] = [];
    const counted: DnsLookup = (host, options, done) => {
      asked.push(host);
      lookup(host, options, done);
    };
    const urls = [
      'http://hooks.example/a',
      'http://hooks.example/b',
      'http://10.0.0.1/',
      'http://inside.example/',
    ];
    expect(await judgeEndpoints(urls, { allow: [] }, { lookup: counted })).toEqual(
      new Map([
        ['http://hooks.example/a', { verdict: 'allowed', message: 'requests are sent' }],
        ['http://hooks.example/b', { verdict: 'allowed', message: 'requests are sent' }],
        [
          'http://10.0.0.1/',
          {
            verdict: 'refused',
            message: '10.0.0.1 is refused as private; add it to egress.allow if it is yours',
          },
        ],
        [
          'http://inside.example/',
          {
            verdict: 'refused',
            message:
              'inside.example resolves to 10.20.0.7, which is refused as private; add it to egress.allow if it is yours',
          },
        ],
      ]),
    );
    expect(asked.sort()).toEqual(['hooks.example', 'inside.example']);
  });

  it('are waited for only so long, however many there are, two lookups at a time', async () => {
    let asked = 0;
    const silent: DnsLookup = () => void asked++;
    const urls = Array.from({ length: 1000 }, (_, nth) => `http://n${nth}.example/`);
    const verdicts = await judgeEndpoints(
      [...urls, 'http://127.0.0.1/'],
      { allow: [] },
      { lookup: silent, patience: 20 },
    );
    expect(verdicts.get('http://n999.example/')).toEqual({
      verdict: 'unresolved',
      message: 'n999.example was not looked up in time',
    });
    expect(verdicts.get('http://127.0.0.1/')?.verdict).toBe('refused');
    expect(asked).toBe(2);
  });
});

describe('a literal address', () => {
  it.each([
    ['http://127.0.0.1:80/', '127.0.0.1 is refused as loopback; add it to egress.allow if it is yours'],
    ['http://[::1]/', '::1 is refused as loopback; add it to egress.allow if it is yours'],
    ['http://2130706433/', '127.0.0.1 is refused as loopback; add it to egress.allow if it is yours'],
    ['http://10.1.2.3/', undefined],
    ['http://1.1.1.1/', undefined],
    ['http://localhost/', undefined],
  ])('%s is refused without a lookup: %s', (url, message) => {
    expect(literalRefusal(url, { allow: ['10.0.0.0/8'] })).toBe(message);
  });
});
