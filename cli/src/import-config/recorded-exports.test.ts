import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readRecords } from '@millrace/server/config';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { filesOf } from './files.ts';
import { workspacesIn } from './inputs.ts';
import { type Translated, translate } from './translate.ts';

const FIXTURES = join(import.meta.dirname, '../../../spec/fixtures/import-config');

interface ExpectedLine {
  readonly kind: string;
  readonly id: string;
  readonly outcome: string;
}

const fixture = (name: string) => JSON.parse(readFileSync(join(FIXTURES, name), 'utf8')) as never;

/**
 * Expectations that hold when filters, mappings and functions can be taken over, each with what is said as
 * long as they cannot: never that a thing is taken whose effect is missing.
 */
const UNTIL_THEN: Readonly<Record<string, readonly [outcome: string, reason: RegExp]>> = {
  'filter f1': ['not', /^with shaping$/],
  'filter f2': ['not', /^with shaping$/],
  'filter f3': ['not', /^with shaping$/],
  'filter f5': ['not', /^with shaping; disabled there$/],
  'subscription s1': ['not', /^with shaping: its trigger beside those of other URLs$/],
  'subscription s2': [
    'not',
    /^with shaping: its trigger, its body, its method PUT, its batches; its batch_size is a text there: "500"$/,
  ],
  'subscription s4': ['not', /^with shaping: its body$/],
  'function ifnd_4': ['not', /^with shaping$/],
  'transformation tr_1': ['not', /^with shaping$/],
  'destination d_cls': ['partly', /^is off here; filter f1 "no tests" with shaping; /],
  'trackingPlan tp_1': ['not', /^kept as a file: /],
};

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'exports-'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function translated(path: string, env: Readonly<Record<string, string>> = {}): Promise<Translated> {
  return translate(await workspacesIn({ paths: [path] }), env);
}

/** Stores a part of a fixture as the file that somebody would have. */
function stored(name: string, value: unknown): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify(value));
  return path;
}

function recordsIn(result: Translated) {
  const [file] = filesOf(result, 'millrace.yaml');
  const env = Object.fromEntries(result.variables.map((name) => [name, `value-of-${name}`]));
  return readRecords({ path: 'millrace.yaml', text: file!.text }, env);
}

function outcomes({ report }: Translated): Record<string, readonly [string, string | undefined]> {
  return Object.fromEntries(
    report.things.map(({ kind, id, outcome, reason }) => [`${kind} ${id}`, [outcome, reason]]),
  );
}

function expectReport(result: Translated, expected: readonly ExpectedLine[]): void {
  const found = outcomes(result);
  for (const { kind, id, outcome } of expected) {
    const name = `${kind} ${id}`;
    const [until, reason] = UNTIL_THEN[name] ?? [outcome];
    expect({ name, outcome: found[name]?.[0] }).toEqual({ name, outcome: until });
    if (reason !== undefined) expect(found[name]?.[1]).toMatch(reason);
    if (until !== 'taken')
      expect({ name, reason: found[name]?.[1] }).toEqual({ name, reason: expect.any(String) });
  }
}

/** All ids of an export, but for those of kinds, which belong to the catalogue. */
function idsIn(value: unknown, key = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((one) => idsIn(one, key));
  if (typeof value !== 'object' || value === null) return [];
  const { id } = value as { readonly id?: unknown };
  const isKind = ['metadata', 'sourceDefinition', 'destinationDefinition'].includes(key);
  const own = typeof id === 'string' && !isKind ? [id] : [];
  return [...own, ...Object.entries(value).flatMap(([name, inner]) => (isKind ? [] : idsIn(inner, name)))];
}

describe('a recorded workspace of the Public API', () => {
  const {
    requests,
    report,
    config_holds: holds,
  } = fixture('workspace.json') as {
    requests: object;
    report: readonly ExpectedLine[];
    config_holds: {
      sources: Record<string, object>;
      destinations: Record<
        string,
        { sources: string[]; urls: string[]; headers?: Record<string, object>; namesInIntegrations: string[] }
      >;
    };
  };
  let result: Translated;

  beforeAll(async () => {
    result = await translated(stored('answers.json', { requests }));
  });

  it('has each thing in the report, with the outcome that it has today', () => {
    expectReport(result, report);
  });

  it('has every id of the export in the report', () => {
    const reported = new Set(result.report.things.map(({ id }) => id));
    expect(idsIn(requests).filter((id) => !reported.has(id))).toEqual([]);
  });

  it('names the small oddities too, which change no request', () => {
    const found = outcomes(result);
    expect(found['destination d_cls']![1]).toMatch(/an empty row of headers is left out$/);
    expect(found['subscription s3']![1]).toMatch(/^no url: unfinished; an empty trigger/);
    expect(found['destination d_act2']![1]).toMatch(
      /it has no name there: one is made from its kind and source$/,
    );
    expect(found['destination d_ext']![1]).toMatch(/^OAuth to the receiver/);
  });

  it('holds the write keys, URLs, headers and sources that it had there', () => {
    const { sources, destinations } = recordsIn(result);
    for (const [name, expected] of Object.entries(holds.sources))
      expect(sources.find((one) => one['name'] === name)).toMatchObject(expected);
    for (const [name, expected] of Object.entries(holds.destinations)) {
      const record = destinations.find((one) => one['name'] === name) as never as {
        sources: string[];
        settings: { endpoints: { url: string; headers: object }[]; integrationNames: string[] };
      };
      expect(record.settings.integrationNames).toEqual(expected.namesInIntegrations);
      expect(record.sources).toEqual(expected.sources);
      expect(record.settings.endpoints.map(({ url }) => url)).toEqual(expected.urls);
      for (const { url, headers } of record.settings.endpoints)
        expect(headers).toEqual(expected.headers?.[url] ?? headers);
    }
  });

  it('asks for the masked secret, and takes it from the environment when it is there', async () => {
    expect(result.report.asked).toContainEqual({
      variable: 'PARTNER_SECRET',
      text: expect.stringContaining('"Partner" (d_act)'),
    });
    const answered = await translated(join(folder, 'answers.json'), { PARTNER_SECRET: 'x' });
    expect(answered.report.asked.map(({ variable }) => variable)).not.toContain('PARTNER_SECRET');
    const partner = recordsIn(answered).destinations.find((one) => one['name'] === 'Partner');
    expect(partner).toMatchObject({ settings: { sharedSecret: 'value-of-PARTNER_SECRET' } });
    expect(outcomes(answered)['destination d_act']![1]).not.toMatch(/masked/);
  });

  it('keeps the text of whatever needs shaping as a comment, and tracking plans and suppressed users as files', () => {
    const [file, suppressed, plans] = filesOf(result, 'out/millrace.yaml');
    for (const text of [
      "contains(context.page.url, '/test')",
      'event.properties.email; return event',
      '"newEventName"',
    ])
      expect(file!.text).toMatch(new RegExp(`^ *# .*${text.replace(/[()/.]/g, '\\$&')}`, 'm'));
    expect(suppressed).toMatchObject({
      path: 'out/millrace.suppressed.txt',
      text: '"gone-1"\n"gone-2"\n',
      command: 'millrace suppress --json-ids --file out/millrace.suppressed.txt',
    });
    expect(JSON.parse(plans!.text)).toMatchObject([
      { id: 'tp_1', rules: { length: 3 }, sourceIds: ['src_web'] },
    ]);
  });

  it('is the same workspace from a folder with a file for each answer', async () => {
    const path = join(folder, 'answers');
    for (const [request, body] of Object.entries(requests)) {
      const own = request.replace(/^GET \//, '').replace(/\?resourceType=/, '-') || 'workspace';
      const file = join(path, `${own}.json`);
      mkdirSync(join(file, '..'), { recursive: true });
      writeFileSync(file, JSON.stringify(body));
    }
    const other = await translated(path);
    expect(other.records).toEqual(result.records);
    expect(outcomes(other)).toEqual(outcomes(result));
  });
});

describe('a recorded configuration of RudderStack', () => {
  const { config, report } = fixture('rudderstack-workspace.json') as {
    config: { sources: unknown };
    report: readonly ExpectedLine[];
  };

  it('has each thing in the report, and every id', async () => {
    const result = await translated(stored('rudder.json', config));
    expectReport(result, report);
    const reported = new Set(result.report.things.map(({ id }) => id));
    expect(idsIn(config.sources).filter((id) => !reported.has(id))).toEqual([]);
    expect(outcomes(result)['destination rd3']![1]).toMatch(/GET/);
    expect(outcomes(result)['transformation t1']![1]).toMatch(/code is not in the file/);
    expect(recordsIn(result).destinations).toMatchObject([
      {
        name: 'Hook',
        enabled: true,
        settings: { endpoints: [{ headers: { 'X-Team': 'ops' } }], integrationNames: ['Webhook', 'WEBHOOK'] },
      },
    ]);
  });
});

describe('a recorded folder of Git Sync', () => {
  const { expect: expected } = fixture('git-sync.json') as {
    expect: Record<string, Record<string, unknown>>;
  };
  const values = (path: string) => expected[path]!;

  it('has the tricky values, and asks for keys and secrets', async () => {
    const workspace = await workspacesIn({ paths: [join(FIXTURES, 'git-sync')] });
    const mapping = workspace.destinations.find(({ id }) => id === 'd_act')!.mappings![0]!;
    const wanted = values('destination_subscriptions/d_act_s2.tf');
    expect(mapping.trigger).toBe(wanted['trigger']);
    expect((mapping.raw as { settings: object }).settings).toMatchObject(wanted['settings'] as object);
    const filter = workspace.destinations.find(({ id }) => id === 'd_cls')!.filters[0]!;
    expect((filter.raw as { actions: object }).actions).toEqual(
      values('destination_filters/d_cls_f1.tf')['actions'],
    );
    expect(workspace.functions[0]!.code).toBe(values('functions/ifnd_4.tf')['code']);
    const result = translate(workspace, {});
    expect(result.report.asked.flatMap(({ variable }) => variable ?? [])).toEqual([
      'WEBSITE_WRITE_KEY',
      'PARTNER_SECRET',
    ]);
    expect(recordsIn(result).sources).toMatchObject([
      { name: 'Website', trust: 'client', writeKeys: ['value-of-WEBSITE_WRITE_KEY'] },
    ]);
    expect(outcomes(result)['source src_web']![0]).toBe('partly');
  });

  it('leaves everything off where it cannot be known where a function is at work', async () => {
    const result = await translated(join(FIXTURES, 'git-sync'));
    for (const { name, enabled } of recordsIn(result).destinations as never as {
      name: string;
      enabled: boolean;
    }[])
      expect({ name, enabled }).toEqual({ name, enabled: false });
    expect(outcomes(result)['answer instances of ifnd_4']![0]).toBe('not');
  });
});

describe('a recorded state of Terraform', () => {
  const { state, expect: expected } = fixture('terraform-state.json') as {
    state: { values: { root_module: { resources: object[]; child_modules: { resources: object[] }[] } } };
    expect: {
      sources: Record<string, string[]>;
      destinations: Record<string, { sources: string[]; urls: string[]; secret: string }>;
    };
  };

  it.each([
    ['as terraform show -json prints it', () => state],
    ['as Terraform stores it', () => asStored(state)],
  ])('has keys, URLs and secrets, %s', async (_, made) => {
    const { sources, destinations } = recordsIn(await translated(stored('state.json', made())));
    for (const [name, writeKeys] of Object.entries(expected.sources))
      expect(sources).toMatchObject([{ name, writeKeys }]);
    for (const [name, { sources: names, urls, secret }] of Object.entries(expected.destinations))
      expect(destinations).toMatchObject([
        { name, sources: names, settings: { endpoints: urls.map((url) => ({ url })), sharedSecret: secret } },
      ]);
  });

  it('leaves everything off where it cannot be known where a function is at work', async () => {
    const values = { id: 'ifnd_1', resource_type: 'INSERT_DESTINATION', code: '' };
    const { resources, child_modules: modules } = state.values.root_module;
    const all = [...resources, { type: 'segment_function', mode: 'managed', name: 'x', values }];
    const more = { values: { root_module: { resources: all, child_modules: modules } } };
    const { destinations } = recordsIn(await translated(stored('state.json', more)));
    expect(destinations).toMatchObject([{ enabled: false }]);
  });

  it('says that what Terraform does not manage is not in it', async () => {
    const { report } = await translated(stored('state.json', state));
    expect(report.asked.map(({ text }) => text)).toContainEqual(
      expect.stringMatching(/Terraform does not manage/),
    );
  });
});

function asStored(state: {
  values: { root_module: { resources: object[]; child_modules: { resources: object[] }[] } };
}): object {
  const { resources, child_modules: modules } = state.values.root_module;
  const all = [...resources, ...modules.flatMap((one) => one.resources)] as { values: object }[];
  return {
    version: 4,
    terraform_version: '1.9.0',
    resources: all.map(({ values, ...one }) => ({ ...one, instances: [{ attributes: values }] })),
  };
}

describe('an export that is none', () => {
  it.each([
    ['nothing.json', '{"a": 1}', /nothing in .* is known/],
    ['broken.json', '{"a": ', /is not JSON/],
    ['list.json', '[1]', /nothing in .* is known/],
  ])('%s is refused with what there may be', async (name, text, message) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    await expect(workspacesIn({ paths: [path] })).rejects.toThrow(message);
  });

  it('is refused when it does not exist', async () => {
    await expect(workspacesIn({ paths: [join(folder, 'nowhere')] })).rejects.toThrow(/does not exist/);
  });
});
