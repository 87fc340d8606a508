import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../server/src/config/load.ts';
import schema from '../spec/config.schema.json' with { type: 'json' };
import errors from '../spec/errors.json' with { type: 'json' };
import { configurationReference } from './configuration-reference.ts';
import { errorsReference } from './errors-reference.ts';

const ROOT = resolve(import.meta.dirname, '..');
const pageOf = (name: string) => readFileSync(resolve(ROOT, 'docs/reference', name), 'utf8');

describe('docs/reference/errors.md', () => {
  it('has every code of the catalogue once in its part, and no cell that breaks the table', () => {
    const page = errorsReference();
    expect(pageOf('errors.md')).toBe(page);
    const rows = page.split('\n').filter((line) => line.startsWith('| `'));
    const codes = rows.map((row) => row.split('`')[1]);
    const all = Object.values(errors).flatMap((part) => Object.keys(part));
    expect(codes.toSorted()).toEqual(all.toSorted());
    for (const row of rows) expect([row, [4, 5].includes(row.split('|').length - 1)]).toEqual([row, true]);
  });
});

describe('docs/reference/configuration.md', () => {
  it('shows a file that the server takes', () => {
    const [, text = ''] = /```yaml\n(.*?)```/s.exec(pageOf('configuration.md')) ?? [];
    const file = { path: 'millrace.yaml', text };
    const { warnings } = loadConfig({
      ...{ file, flags: {}, defaults: { host: '127.0.0.1' } },
      env: { CRM_SECRET: 's3cret-of-the-tests' },
    });
    expect(warnings).toEqual([]);
  });

  it('has every key with its default', () => {
    const page = configurationReference(schema as object);
    const keys = [...page.matchAll(/^\| `([\w.[\]]+)` \| ([^|]+) \| ([^|]*) \|/gm)].map(([, key, , rest]) => [
      key,
      rest?.trim(),
    ]);
    const found = new Map(keys as [string, string][]);
    for (const [key, standard] of [
      ['port', '`8080`'],
      ['retention.events', '`7d`'],
      ['limits.requestBytes', '`64MB`'],
      ['metrics.public', '`false`'],
      ['tls.cert', 'required'],
      ['whenDisabled', '`refuse`'],
      ['settings.endpoints', 'required'],
      ['settings.endpoints[].url', 'required'],
      ['settings.filter.events', ''],
    ])
      expect([key, found.get(key!)]).toEqual([key, standard]);
  });

  it('names the variables that the server reads', () => {
    const page = pageOf('configuration.md');
    const variables = [...page.matchAll(/^\| `(MILLRACE_\w+)` \| .*\| `([\w.]+)` \|$/gm)];
    expect(variables.length).toBe(9);
    const values: Record<string, string> = {
      ...{ port: '4711', 'admin.port': '4712', database: 'postgres://db/m', log: 'warn' },
    };
    for (const [, variable, key] of variables) {
      const value = values[key!] ?? 'x';
      const { config } = loadConfig({
        // An address of the admin port is refused without one.
        ...{
          env: { MILLRACE_ADMIN_PORT: '4712', [variable!]: value },
          flags: {},
          defaults: { host: '127.0.0.1' },
        },
      });
      const found = key!.split('.').reduce((at: unknown, part) => (at as never)[part], config);
      expect([variable, String(found)]).toEqual([variable, value]);
    }
  });
});
