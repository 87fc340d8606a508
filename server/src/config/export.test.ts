// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} in a plain string is what this file is about.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { randomRecords } from '../../test/support/random-records.ts';
import { amountOf } from '../../test/support/runs.ts';
import { secretVariables } from '../../test/support/secret-variables.ts';
import { destinationView, sourceView, toJson } from '../control-api/views.ts';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import type { JsonObject } from '../model/json.ts';
import { type ExportedRecords, formatConfig } from './export.ts';
import { type Config, checkRecords, loadConfig } from './load.ts';
import { readConfigFile } from './yaml-source.ts';

/** A document as the control API shows it. */
const CRM: JsonObject = {
  name: 'crm',
  type: 'webhooks',
  sources: ['website', 'app'],
  enabled: true,
  settings: {
    endpoints: [
      {
        url: 'https://example.com/hook?a=1&b=%20',
        headers: { 'X-Team': 'growth', Authorization: { set: true, hint: 'abcd' } },
      },
      { url: 'https://[2001:db8::1]:8443/x?token=…&…&token=…&${a}=…', headers: {} },
    ],
    sharedSecret: { set: true },
    signingSecrets: [{ set: true, hint: 'AAAA' }, { set: true }],
    format: 'documented',
    success: 'any',
    filter: { types: ['track'], events: ['Order Placed', 'a\nb', '${HOME} and $${x}'] },
    rateLimit: 50,
  },
};
const WEBSITE: JsonObject = {
  name: 'website',
  writeKeys: ['wk_1', '1e3', '{}', '$${'],
  enabled: true,
  mode: 'standard',
  whenDisabled: 'refuse',
  dedupeWindow: '36h',
};

describe('a configuration file', () => {
  it('is written as a person would, sorted, with the name of a variable for every secret', () => {
    const text = formatConfig({
      sources: [WEBSITE, { name: 'app', writeKeys: ['no'] }],
      destinations: [CRM],
    });
    expect(text).toBe(`# Written by \`millrace export\`; \`millrace plan -f\` shows what it would change.
# Secrets are not in it. They are read from these variables of the environment:
#   CRM_HEADER_1_AUTHORIZATION  endpoints[0].headers.Authorization of "crm"
#   CRM_QUERY_2_TOKEN_B4D5DA45  "token" in endpoints[1].url of "crm"
#   CRM_QUERY_2_VALUE           a value in endpoints[1].url of "crm"
#   CRM_QUERY_2_TOKEN_57078749  "token" in endpoints[1].url of "crm"
#   CRM_QUERY_2_A               "\${a}" in endpoints[1].url of "crm"
#   CRM_SECRET                  sharedSecret of "crm"
#   CRM_SIGNING_SECRET_1        signingSecrets[0] of "crm"
#   CRM_SIGNING_SECRET_2        signingSecrets[1] of "crm"

sources:
  - name: app
    writeKeys: ["no"]
  - name: website
    writeKeys: [wk_1, "1e3", "{}", "$$\${"]
    enabled: true
    mode: standard
    whenDisabled: refuse
    dedupeWindow: "36h"
destinations:
  - name: crm
    type: webhooks
    sources: [website, app]
    enabled: true
    settings:
      endpoints:
        - url: https://example.com/hook?a=1&b=%20
          headers:
            X-Team: growth
            Authorization: \${CRM_HEADER_1_AUTHORIZATION}
        - url: "https://[2001:db8::1]:8443/x?token=\${CRM_QUERY_2_TOKEN_B4D5DA45}&\${CRM_QUERY_2_VALUE}&token=\${CRM_QUERY_2_TOKEN_57078749}&$\${a}=\${CRM_QUERY_2_A}"
          headers: {}
      sharedSecret: \${CRM_SECRET}
      signingSecrets: [\${CRM_SIGNING_SECRET_1}, \${CRM_SIGNING_SECRET_2}]
      format: documented
      success: any
      filter:
        types: [track]
        events: [Order Placed, "a\\nb", "$\${HOME} and $$\${x}"]
      rateLimit: 50
`);
  });

  it('of no records says so, and can be read', () => {
    const text = formatConfig({ sources: [], destinations: [] });
    expect(text).toMatch(/\nsources: \[\]\ndestinations: \[\]\n$/);
    expect(read(text)).toEqual({ sources: [], destinations: [] });
  });

  it('has a name for every secret that is a variable anywhere and stands for nothing else', () => {
    const named = (name: string) => ({ ...CRM, name });
    const names = ['ünd', '1a b', '日本', '🚀', 'CRM', 'crm', 'crm-', 'crm header 1'];
    const text = formatConfig({ sources: [], destinations: names.map(named) });
    const variables = variablesIn(text);
    expect(variables).toHaveLength(names.length * 8);
    for (const variable of variables) expect(variable).toMatch(/^[A-Z_][A-Z0-9_]*$/);
    expect(variables).toContain('UND_SECRET');
    expect(variables).toContain('_1A_B_SIGNING_SECRET_1');
    // An operator who set CRM_SECRET for one of three learns that it is not read; none gets the secret of
    // another.
    expect(variables).not.toContain('CRM_SECRET');
    expect(variables.filter((name) => /^CRM_SECRET_[0-9A-F]{8}$/.test(name))).toHaveLength(3);
    const alone = formatConfig({ sources: [], destinations: [named('crm'), named('other')] });
    expect(variablesIn(alone)).toContain('CRM_SECRET');
  });

  it('reads back as the same records for any texts', () => {
    fc.assert(
      fc.property(randomRecords, (document) => {
        const records = checkRecords(document);
        if ('faults' in records) throw new Error(JSON.stringify(records.faults));
        const text = formatConfig(shown(records));
        const found = read(text, secretVariables(text, shown(records), document));
        expect(found).toEqual({
          sources: records.sources.toSorted(byName),
          destinations: records.destinations.toSorted(byName),
        });
        expect(formatConfig(shown(found))).toBe(text);
      }),
      { numRuns: amountOf({ gate: 80, long: 250 }) },
    );
  });

  it('holds texts that no file can hold as they are', () => {
    const names = ['\ud800', 'a\u0085b', '\ufeff', '\ue000', '\ufdd0\ufdd1'.repeat(2)];
    const sources = [...names].sort().map((name) => ({ name, writeKeys: ['wk'] }));
    const text = formatConfig({ sources, destinations: [] });
    expect(readConfigFile({ path: 'f', text }, {}).value).toEqual({ sources, destinations: [] });
    expect(Buffer.from(text).toString()).toBe(text);
  });

  it('may have comments and missing values, which are read from variables', () => {
    const text = formatConfig(
      {
        sources: [{ name: 'site', writeKeys: [{ set: true, variable: 'SITE_WRITE_KEY' }] }],
        destinations: [],
      },
      {
        heading: ['Made by hand.', '  KEY  a\nb'],
        before: new Map([
          ['sources site', ['one\u2028- name: two', '', 'a\tb\ufdd0']],
          ['destinations site', ['of another list']],
        ]),
        end: ['the end'],
      },
    );
    expect(text).toBe(`# Made by hand.
#   KEY  a\\u000ab

sources:
  # one\\u2028- name: two
  #
  # a\tb\ufffd
  - name: site
    writeKeys: [$\{SITE_WRITE_KEY}]
# the end
`);
    const found = readConfigFile({ path: 'f', text }, { SITE_WRITE_KEY: 'wk' });
    expect(found.value).toEqual({ sources: [{ name: 'site', writeKeys: ['wk'] }] });
  });
});

/** The records that a start with this file loads. */
function read(text: string, env: Readonly<Record<string, string>> = {}) {
  const inputs = { env, flags: {}, defaults: { host: '127.0.0.1' } };
  const { config } = loadConfig({ ...inputs, file: { path: 'f', text } });
  return { sources: config.sources, destinations: config.destinations };
}

/** The variables that the beginning of a file lists. */
function variablesIn(text: string): string[] {
  return [...text.matchAll(/^# {3}(\w+) /gm)].map(([, name]) => name!);
}

/** The answer of the control API. */
function shown({ sources, destinations }: Pick<Config, 'sources' | 'destinations'>): ExportedRecords {
  return {
    sources: sources.map(sourceView).map(toJson),
    destinations: destinations.map((one) => toJson(destinationView(one, DESTINATION_TYPES))),
  };
}

function byName(one: { readonly name: string }, other: { readonly name: string }): number {
  return one.name < other.name ? -1 : 1;
}
