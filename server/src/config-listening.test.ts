import { describe, expect, it } from 'vitest';
import { ConfigError, loadConfig } from './config.ts';

const load = (text: string) =>
  loadConfig({ file: { path: 'f.yaml', text }, env: {}, flags: {}, defaults: { host: 'h' } });

function problem(text: string): string {
  try {
    load(text);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'none';
}

describe('the keys of the listener', () => {
  it('are taken as they are written', () => {
    const { config, warnings } = load(`
publicUrl: https://example.com/events
trustedProxies: [127.0.0.1/32, fd00::/8]
tls: { cert: a.pem, key: b.pem }
limits: { connections: 10, requests: 20, requestBytes: 3MB }
sources: [{ name: web, writeKeys: [wk], rateLimit: 50 }]
`);
    expect(warnings).toEqual([]);
    expect(config).toMatchObject({
      publicUrl: 'https://example.com/events',
      trustedProxies: ['127.0.0.1/32', 'fd00::/8'],
      tls: { cert: 'a.pem', key: 'b.pem' },
      limits: { connections: 10, requests: 20, requestBytes: 3 * 1024 ** 2, dedupeMemory: 64 * 1024 ** 2 },
      sources: [{ rateLimit: 50 }],
    });
  });

  const COUNT = 'must be a whole number from 1 to 1000000';
  const URL = 'must be an absolute http or https URL without a query, such as https://collect.example.com';

  it.each([
    ['limits: { requests: 0 }', `1:21  limits.requests  ${COUNT}, found the number 0`],
    ['limits: { connections: 1.5 }', `1:24  limits.connections  ${COUNT}, found the number 1.5`],
    [
      'limits: { requestBytes: 64 }',
      '1:25  limits.requestBytes  must be a size such as 64MB, found the number 64',
    ],
    [
      'trustedProxies: [10.0.0.1]',
      '1:18  trustedProxies[0]  must be an address range such as 10.20.0.0/16, 192.0.2.7/32 or fd00::/8, found "10.0.0.1"',
    ],
    ['publicUrl: example.com', `1:12  publicUrl  ${URL}, found "example.com"`],
    ['publicUrl: "https://example.com/?a=b"', `1:12  publicUrl  ${URL}, found "https://example.com/?…"`],
    [
      'sources: [{ name: web, writeKeys: [wk], rateLimit: 10/s }]',
      `1:52  sources[0].rateLimit  ${COUNT}, found "10/s"`,
    ],
  ])('are refused with their place when wrong: %s', (text, message) => {
    expect(problem(text)).toBe(`f.yaml:${message}`);
  });
});
