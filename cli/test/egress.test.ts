import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from './program.ts';

describe('millrace egress explain', () => {
  let folder = '';
  let config = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-egress-'));
    config = join(folder, 'millrace.yaml');
    writeFileSync(
      config,
      'egress: { allow: [10.20.0.0/16], proxy: "http://u:geheim@proxy.internal:3128" }\n',
    );
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const explain = (args: readonly string[]) => runVerb(['egress', 'explain', ...args]);

  it('says which rule refuses a target, and ends with 1', async () => {
    const { code, out } = await explain(['http://169.254.169.254/latest/meta-data']);
    expect(code).toBe(1);
    expect(out).toContain('169.254.169.254  refused  link-local');
    expect(out).toContain(
      'refused: 169.254.169.254 is refused as link-local; add it to egress.allow if it is yours',
    );
  });

  it('says which rule of the configuration allows one, and which address is used, and ends with 0', async () => {
    const { code, out, err } = await explain(['http://10.20.3.4:8080/hook', '--config', config]);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toContain('10.20.3.4  allowed  egress.allow 10.20.0.0/16  tried first');
    expect(out).toContain('through the proxy proxy.internal:3128');
    expect(out).not.toContain('geheim');
  });

  it('prints it as JSON when asked', async () => {
    const { code, out } = await explain(['https://10.21.0.1/', '--config', config, '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(out)).toEqual({
      url: 'https://10.21.0.1/',
      host: '10.21.0.1',
      port: 443,
      verdict: 'refused',
      addresses: [{ address: '10.21.0.1', allowed: false, rule: 'private' }],
      proxy: 'proxy.internal:3128',
      message: '10.21.0.1 is refused as private; add it to egress.allow if it is yours',
    });
  });

  it('takes what is no URL, no argument and a missing file for wrong usage', async () => {
    for (const [args, message] of [
      [['example.com/hook'], '"example.com/hook" is not an absolute http or https URL.'],
      [[], "missing required argument 'url'"],
      [['http://1.1.1.1/', '--config', join(folder, 'none.yaml')], 'does not exist'],
    ] as const) {
      const { code, out, err } = await explain(args);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err).toContain(message);
    }
  });
});
