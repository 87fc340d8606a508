import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { writtenSettings } from '../server/src/config/destination-schema.ts';
import { configFileSchema } from '../server/src/config/schema.ts';
import { readConfigFile } from '../server/src/config/yaml-source.ts';
import { webhooks } from '../server/src/destinations/webhooks/destination.ts';

const ROOT = resolve(import.meta.dirname, '..');
const configSchema = readSchema('spec/config.schema.json');
const settingsSchema = readSchema('spec/destinations/webhooks.settings.schema.json');

type Schema = Readonly<Record<string, unknown>>;

function readSchema(path: string): Schema {
  return asSchema(JSON.parse(readFileSync(resolve(ROOT, path), 'utf8')));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function asSchema(value: unknown): Schema {
  if (!isRecord(value)) throw new Error('not a schema');
  return value;
}

/** The meaning of each keyword of JSON Schema. A test that meets another keyword fails. */
const KEYWORDS: Readonly<Record<string, (rule: never, value: unknown, schema: Schema) => boolean>> = {
  type: (rule: string | string[], value) => [rule].flat().some((type) => isOfType(type, value)),
  enum: (rule: unknown[], value) => rule.includes(value),
  const: (rule: unknown, value) => rule === value,
  pattern: (rule: string, value) => typeof value !== 'string' || new RegExp(rule, 'u').test(value),
  minLength: (rule: number, value) => typeof value !== 'string' || value.length >= rule,
  maxLength: (rule: number, value) => typeof value !== 'string' || value.length <= rule,
  minimum: (rule: number, value) => typeof value !== 'number' || value >= rule,
  maximum: (rule: number, value) => typeof value !== 'number' || value <= rule,
  minItems: (rule: number, value) => !Array.isArray(value) || value.length >= rule,
  maxItems: (rule: number, value) => !Array.isArray(value) || value.length <= rule,
  maxProperties: (rule: number, value) => !isRecord(value) || Object.keys(value).length <= rule,
  uniqueItems: (rule: boolean, value) =>
    !rule || !Array.isArray(value) || new Set(value).size === value.length,
  items: (rule: Schema, value) => !Array.isArray(value) || value.every((item) => fits(rule, item)),
  required: (rule: string[], value) => !isRecord(value) || rule.every((key) => key in value),
  propertyNames: (rule: Schema, value) =>
    !isRecord(value) || Object.keys(value).every((key) => fits(rule, key)),
  properties: (rule: Record<string, Schema>, value) =>
    !isRecord(value) ||
    Object.entries(rule).every(([key, inner]) => !(key in value) || fits(inner, value[key])),
  additionalProperties: (rule: Schema | false, value, schema) => {
    if (!isRecord(value)) return true;
    const known = isRecord(schema['properties']) ? schema['properties'] : {};
    const others = Object.keys(value).filter((key) => !(key in known));
    return rule === false ? others.length === 0 : others.every((key) => fits(rule, value[key]));
  },
  not: (rule: Schema, value) => !fits(rule, value),
  anyOf: (rule: Schema[], value) => rule.some((inner) => fits(inner, value)),
  oneOf: (rule: Schema[], value) => rule.filter((inner) => fits(inner, value)).length === 1,
};

function isOfType(type: string, value: unknown): boolean {
  if (type === 'object') return isRecord(value);
  if (type === 'array') return Array.isArray(value);
  return type === 'integer' ? Number.isInteger(value) : typeof value === type;
}

const NOTES = ['$schema', 'title', 'description', 'default', 'examples', 'writeOnly'];

function fits(schema: Schema, value: unknown): boolean {
  return Object.entries(schema).every(([keyword, rule]) => {
    if (NOTES.includes(keyword)) return true;
    const says = KEYWORDS[keyword];
    if (says === undefined) throw new Error(`this test does not know ${keyword}`);
    return says(rule as never, value, schema);
  });
}

/** Every schema inside a schema that describes a mapping with fixed keys. */
function sections(schema: unknown): Schema[] {
  if (Array.isArray(schema)) return schema.flatMap(sections);
  if (!isRecord(schema)) return [];
  const own = schema['type'] === 'object' && 'properties' in schema ? [schema] : [];
  return [...own, ...Object.values(schema).flatMap(sections)];
}

const reference = (name: string): string => `$\{${name}}`;

describe('the JSON schemas', () => {
  it('have a title, and refuse unknown keys everywhere', () => {
    for (const schema of [configSchema, settingsSchema]) {
      expect(schema['title']).toEqual(expect.stringContaining('Millrace'));
      expect(sections(schema).map((section) => section['additionalProperties'])).not.toContain(undefined);
      expect(sections(schema).every((section) => section['additionalProperties'] === false)).toBe(true);
    }
    expect(sections(configSchema)).toHaveLength(30);
    expect(sections(settingsSchema)).toHaveLength(4);
  });

  it('describe every key of every section', () => {
    const keys = [...sections(configSchema), ...sections(settingsSchema)].flatMap((section) =>
      Object.entries(asSchema(section['properties'])),
    );
    expect(keys.length).toBeGreaterThan(30);
    const silent = keys
      .filter(([, schema]) => asSchema(schema)['description'] === undefined)
      .map(([key]) => key);
    expect(silent).toEqual([]);
  });

  it('accept the example file as it is written, references included', () => {
    const text = readFileSync(resolve(ROOT, 'millrace.example.yaml'), 'utf8');
    // References stand for themselves here, as they do for an editor.
    const env = { CRM_TOKEN: reference('CRM_TOKEN'), CRM_SECRET: reference('CRM_SECRET') };
    const { value, problems } = readConfigFile({ path: 'millrace.example.yaml', text }, env);
    expect(problems).toEqual([]);
    expect(fits(configSchema, value)).toBe(true);
  });

  it('accept a reference in the configuration file wherever a text has a rule, but not in settings by themselves', () => {
    const name = reference('NAME');
    const settings = { endpoints: [{ url: name, headers: { 'X-A': name } }], format: name };
    const destination = { name, type: 'webhooks', sources: [name], settings };
    expect(fits(configSchema, { host: name, log: name, destinations: [destination] })).toBe(true);
    expect(fits(settingsSchema, settings)).toBe(false);
  });
});

describe('the JSON schemas and the server', () => {
  const url = 'https://example.com';
  const headers = (given: Record<string, unknown>) => ({ endpoints: [{ url, headers: given }] });
  const settings: [unknown, boolean][] = [
    [{ endpoints: [{ url }] }, true],
    [
      { endpoints: [{ url: 'HTTP://a:1/b?c=d' }], sharedSecret: 's', format: 'canonical', success: 'each' },
      true,
    ],
    [headers({ Authorization: 'x', 'X-Signature-2': '' }), true],
    [{}, false],
    [{ endpoints: [] }, false],
    [{ endpoints: Array.from({ length: 6 }, () => ({ url })) }, false],
    [{ endpoints: [url] }, false],
    [{ endpoints: [{ url: 'example.com/hook' }] }, false],
    [{ endpoints: [{ url: 'https://u:p@example.com' }] }, false],
    [{ endpoints: [{ url: 'https://example.com/#x' }] }, false],
    [headers({ a: '', b: '', c: '', d: '', e: '', f: '' }), false],
    [headers({ 'CONTENT-encoding': 'x' }), false],
    [headers({ te: 'x' }), false],
    [headers({ 'a b': 'x' }), false],
    [headers({ a: 1 }), false],
    [headers({ a: 'b\nc' }), false],
    [{ endpoints: [{ url }], sharedSecret: '' }, false],
    [
      { endpoints: [{ url }], signingSecrets: [`whsec_${'A'.repeat(32)}`, `whsec_${'b'.repeat(86)}==`] },
      true,
    ],
    [{ endpoints: [{ url }], signingSecrets: [] }, false],
    [
      { endpoints: [{ url }], signingSecrets: Array.from({ length: 3 }, () => `whsec_${'A'.repeat(32)}`) },
      false,
    ],
    [{ endpoints: [{ url }], signingSecrets: [`whsec_${'A'.repeat(31)}=`] }, false],
    [{ endpoints: [{ url }], signingSecrets: [`whsec_${'A'.repeat(88)}`] }, false],
    [{ endpoints: [{ url }], signingSecrets: ['A'.repeat(32)] }, false],
    [{ endpoints: [{ url }], filter: { types: ['track'], events: ['Order *'] } }, true],
    [{ endpoints: [{ url }], filter: {} }, true],
    [{ endpoints: [{ url }], filter: { types: ['delete'] } }, false],
    [{ endpoints: [{ url }], filter: { types: [] } }, false],
    [{ endpoints: [{ url }], filter: { events: [''] } }, false],
    [{ endpoints: [{ url }], rateLimit: 1, concurrency: 256 }, true],
    [{ endpoints: [{ url }], rateLimit: 0 }, false],
    [{ endpoints: [{ url }], rateLimit: 1.5 }, false],
    [{ endpoints: [{ url }], concurrency: 257 }, false],
    [{ endpoints: [{ url }], sucess: 'any' }, false],
  ];
  it.each(settings)('agree on settings %j: %s', (value, good) => {
    expect({
      schema: fits(settingsSchema, value),
      server: writtenSettings(webhooks).safeParse(value).success,
    }).toEqual({
      schema: good,
      server: good,
    });
  });

  const destination = { name: 'd', type: 'webhooks', sources: [], settings: { endpoints: [{ url }] } };
  const configs: [unknown, boolean][] = [
    [{}, true],
    [{ port: 0, host: '::1', log: 'debug', data: 'x', database: 'postgresql://db/x' }, true],
    [{ retention: { events: '1d' }, limits: { disk: '10GB' }, egress: { allow: ['fd00::/8'] } }, true],
    [{ sources: [{ name: 'größe 1', writeKeys: ['a'] }], destinations: [destination] }, true],
    [{ sources: [{ name: 'n'.repeat(100), writeKeys: ['k'.repeat(100)] }] }, true],
    [{ sources: [{ name: '😀'.repeat(100), writeKeys: ['a'] }] }, true],
    [{ egress: { proxy: 'http://u:p@proxy:3128' } }, true],
    [{ port: 65_536 }, false],
    [{ port: '80' }, false],
    [{ prot: 80 }, false],
    [{ retention: { events: '0d' } }, false],
    [{ limits: { disk: '10gb' } }, false],
    [{ egress: { allow: ['10.0.0.1'] } }, false],
    [{ egress: { proxy: 'socks://proxy' } }, false],
    [{ tls: { cert: 'a' } }, false],
    [{ sources: [{ name: 'a', writeKeys: [] }] }, false],
    [{ sources: [{ name: 'a', writeKeys: ['a:b'] }] }, false],
    [{ sources: [{ name: ' a', writeKeys: ['a'] }] }, false],
    [{ sources: [{ name: 'n'.repeat(101), writeKeys: ['a'] }] }, false],
    [{ destinations: [{ ...destination, name: 'All' }] }, false],
    [{ destinations: [{ ...destination, type: 'ftp' }] }, false],
    [{ destinations: [{ ...destination, settings: { endpoints: [] } }] }, false],
  ];
  it.each(configs)('agree on a configuration %j: %s', (value, good) => {
    expect({ schema: fits(configSchema, value), server: configFileSchema.safeParse(value).success }).toEqual({
      schema: good,
      server: good,
    });
  });
});
