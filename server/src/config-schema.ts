import * as z from 'zod';
import { limits, publicUrl, rateLimit, tls, trustedProxies } from './config-listening.ts';
import { addressRanges, CONTROL, duration, filePath, flag, matching, port } from './config-values.ts';
import { urlProblem, webhookSettings } from './destinations/webhooks/settings.ts';
import { isObject } from './model/json.ts';
import type { DestinationRecord, SourceRecord } from './ports/settings.ts';

/** These name every destination of the type, or every destination, in an integrations object. decisions.md section 1. */
const TAKEN_NAMES: readonly string[] = ['Webhooks', 'All', 'all'];

const NAME_RULE =
  'must be text of 1 to 100 characters, without control characters, not starting or ending with a space';
const NAME = new RegExp(`^[^\\s${CONTROL}]([^${CONTROL}]{0,98}[^\\s${CONTROL}])?$`, 'u');
const name = () =>
  matching(NAME, NAME_RULE)
    .refine((value) => !/^\.{1,2}$/.test(value), {
      error: 'must not be . or .., which mean another folder in the path of a request',
    })
    // The store would replace the half of a character, and nobody would find the record by its name.
    .refine((value) => value.isWellFormed(), { error: 'must be whole Unicode characters' });

const WRITE_KEY_RULE = 'must be text of 1 to 100 visible ASCII characters without a colon';
const writeKey = matching(/^[!-9;-~]{1,100}$/, WRITE_KEY_RULE);

/** An entry of `sources`, as an operator writes it. */
export const source = z.strictObject(
  {
    name: name().meta({ description: 'Unique among the sources. Destinations refer to it.' }),
    writeKeys: z
      .array(writeKey, 'must be a list of write keys')
      .min(1, 'must have at least 1 write key')
      .meta({ description: 'What clients of this source sign in with. Unique over all sources.' }),
    enabled: flag()
      .default(true)
      .meta({ description: 'A disabled source accepts nothing; see whenDisabled.' }),
    mode: z.enum(['standard', 'strict'], 'must be standard or strict').default('standard').meta({
      description:
        'standard keeps the valid events of a batch; strict refuses a batch with an invalid event.',
    }),
    whenDisabled: z.enum(['refuse', 'discard'], 'must be refuse or discard').default('refuse').meta({
      description: 'While disabled: refuse answers 401; discard answers 200 and counts.',
    }),
    dedupeWindow: duration().exactOptional().meta({
      description: 'How long a second event with the same messageId is a duplicate; 24h when absent.',
    }),
    rateLimit: rateLimit(),
  },
  'must be a mapping with name and writeKeys',
) satisfies z.ZodType<SourceRecord>;

/** An entry of `destinations`, as an operator writes it. */
export const destination = z.strictObject(
  {
    name: name()
      .refine((value) => !TAKEN_NAMES.includes(value), {
        error:
          'must not be Webhooks, All or all: in an integrations object these stand for many destinations',
      })
      .meta({ description: 'Unique among the destinations.', not: { enum: TAKEN_NAMES } }),
    type: z.literal('webhooks', 'must be webhooks').meta({ description: 'The kind of destination.' }),
    sources: z
      .array(name(), 'must be a list of names of sources')
      .meta({ description: 'Names of the sources it takes events from.' }),
    enabled: flag().default(true).meta({
      description: 'While false, events that arrive are skipped and never sent; what is owed already waits.',
    }),
    paused: flag().exactOptional().meta({
      description:
        'While true, everything waits, what arrives too, for as long as retention.events keeps it. Absent: as it is, by millrace pause and resume.',
    }),
    settings: webhookSettings,
  },
  'must be a mapping with name, type, sources and settings',
) satisfies z.ZodType<DestinationRecord>;

const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;

/** The keys that the environment and flags can set too, each with its rule. */
export const SHARED_KEYS = {
  host: matching(/^[^\s/]+$/, 'must be an address or a host name'),
  port: port(),
  data: filePath(),
  log: z.enum(LOG_LEVELS, 'must be debug, info, warn or error'),
  adminToken: matching(/^[!-~]+$/, 'must be text of visible ASCII characters'),
};

const PROXY_RULE = 'must be an absolute http or https URL';

/** The whole configuration file, strict: a key it does not know is refused. contract.md section 3. */
export const configDocument = z
  .strictObject(
    {
      host: SHARED_KEYS.host.exactOptional().meta({
        description:
          'The address to listen on. Default: 127.0.0.1 for `millrace dev`, 0.0.0.0 for `millrace start`.',
      }),
      port: SHARED_KEYS.port
        .default(8080)
        .meta({ description: 'The port to listen on; 0 takes any free one.' }),
      data: SHARED_KEYS.data.default('./data').meta({ description: 'The folder of the embedded engine.' }),
      log: SHARED_KEYS.log
        .default('info')
        .meta({ description: 'The least important lines that are logged.' }),
      database: matching(/^postgres(ql)?:\/\/\S+$/, 'must be a postgres:// address')
        .exactOptional()
        .meta({ description: 'PostgreSQL instead of the embedded engine, for a cluster.', writeOnly: true }),
      admin: z
        .strictObject(
          {
            token: SHARED_KEYS.adminToken.exactOptional().meta({
              description: 'The token of the control API with the role admin.',
              writeOnly: true,
            }),
            port: port().exactOptional().meta({
              description:
                'A port of their own for control API, console and metrics; the other then takes calls only.',
            }),
          },
          'must be a mapping of token and port',
        )
        .prefault({})
        .meta({ description: 'Access to the control API.' }),
      retention: z
        .strictObject(
          {
            events: duration().prefault('7d').meta({ description: 'How long events are kept.' }),
            deadLetters: duration().prefault('30d').meta({ description: 'How long dead letters are kept.' }),
          },
          'must be a mapping of events and deadLetters',
        )
        .prefault({})
        .meta({ description: 'How long what is stored stays.' }),
      unknownWriteKeys: z.enum(['refuse', 'discard'], 'must be refuse or discard').default('refuse').meta({
        description: 'Calls with an unknown write key: refuse answers 401; discard answers 200 and counts.',
      }),
      egress: z
        .strictObject(
          {
            allow: addressRanges().meta({
              description: 'Private address ranges that endpoints may resolve to.',
              examples: [['10.20.0.0/16']],
            }),
            proxy: z
              .string(PROXY_RULE)
              // A proxy, unlike an endpoint, may carry credentials.
              .refine((url) => urlProblem(url.replace(/\/\/[^/?#@]*@/, '//')) === undefined, {
                error: PROXY_RULE,
                params: { found: true },
              })
              .exactOptional()
              .meta({
                description:
                  'The http or https proxy that outbound requests are tunnelled through (CONNECT); it may carry credentials.',
                pattern: '^[hH][tT][tT][pP][sS]?://',
              }),
            ca: filePath().exactOptional().meta({
              description:
                "Path of a PEM file with the authorities of a private PKI, trusted beside the system's.",
            }),
          },
          'must be a mapping of allow, proxy and ca',
        )
        .prefault({})
        .meta({ description: 'Where outbound requests may go, and how.' }),
      publicUrl: publicUrl(),
      trustedProxies: trustedProxies(),
      tls: tls(),
      metrics: z
        .strictObject(
          { public: flag().default(false).meta({ description: 'Serves /metrics without a token.' }) },
          'must be a mapping of public',
        )
        .prefault({})
        .meta({ description: 'The Prometheus page.' }),
      limits: limits(),
      sources: z
        .array(source, 'must be a list of sources')
        .default([])
        .meta({ description: 'Where calls come from.' }),
      destinations: z
        .array(destination, 'must be a list of destinations')
        .default([])
        .meta({ description: 'Where events go.' }),
    },
    'must be a mapping of settings',
  )
  // Runs on whatever the file holds, so that doubles are reported together with everything else.
  .superRefine((value: unknown, context) => refuseDoubles(value, context), { when: () => true });

/** Names and write keys that occur twice. Values of the wrong type are left to the schema. */
function refuseDoubles(value: unknown, context: z.core.$RefinementCtx): void {
  if (!isObject(value)) return;
  const sources = listOf(value['sources']);
  const destinations = listOf(value['destinations']);
  const refuse = (path: PropertyKey[], message: string) =>
    context.addIssue({ code: 'custom', path, message, input: undefined });
  const once = (found: readonly Occurrence[], messageOf: (first: PropertyKey[]) => string) => {
    const seen = new Map<string, PropertyKey[]>();
    for (const { text, path } of found) {
      const first = seen.get(text);
      if (first === undefined) seen.set(text, path);
      else refuse(path, messageOf(first));
    }
  };
  once(
    occurrences(sources, ['sources'], 'name'),
    (first) => `is also the name of sources[${String(first[1])}]`,
  );
  once(
    occurrences(destinations, ['destinations'], 'name'),
    (first) => `is also the name of destinations[${String(first[1])}]`,
  );
  // The key itself is not printed: messages end up in logs.
  const keys = sources.flatMap((item, index) =>
    isObject(item) ? occurrences(listOf(item['writeKeys']), ['sources', index, 'writeKeys']) : [],
  );
  once(keys, (first) => `is also a write key of sources[${String(first[1])}]`);
  for (const [index, item] of destinations.entries()) {
    if (!isObject(item)) continue;
    const path = ['destinations', index, 'sources'];
    once(occurrences(listOf(item['sources']), path), () => 'is named twice in this list');
  }
}

interface Occurrence {
  readonly text: string;
  readonly path: PropertyKey[];
}

/** The texts of a list, or of one key of its items. */
function occurrences(list: readonly unknown[], path: readonly PropertyKey[], key?: string): Occurrence[] {
  return list.flatMap((item, index) => {
    const value = key === undefined ? item : isObject(item) ? item[key] : undefined;
    if (typeof value !== 'string') return [];
    return [{ text: value, path: [...path, index, ...(key === undefined ? [] : [key])] }];
  });
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
