import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readAuthorities } from './connector.ts';

const CA = readFileSync(new URL('../../../test/support/tls/ca.pem', import.meta.url), 'utf8').trim();

describe('the file of a private PKI', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-ca-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  function file(name: string, text: string): string {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  }

  it('may hold several certificates with anything between them', () => {
    const certificate = CA.slice(CA.indexOf('-----BEGIN'));
    const path = file('two.pem', `ours\n${certificate}\n# and\n${certificate}\n`);
    expect(readAuthorities(path)).toBe(`${certificate}\n${certificate}`);
  });

  it('must be there', () => {
    const path = join(folder, 'missing.pem');
    expect(() => readAuthorities(path)).toThrow(`egress.ca: ${path} cannot be read (ENOENT)`);
  });

  it('must hold a certificate, not a key', () => {
    const path = file('key.pem', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n');
    expect(() => readAuthorities(path)).toThrow(`egress.ca: ${path} holds no certificate in PEM form`);
  });

  it('must not hold a damaged one', () => {
    const damaged = CA.replace(/([A-Za-z0-9+/]{40})\n/, '\n');
    const path = file('damaged.pem', `${CA}\n${damaged}\n`);
    expect(() => readAuthorities(path)).toThrow(`egress.ca: certificate 2 of ${path} is damaged`);
  });
});
