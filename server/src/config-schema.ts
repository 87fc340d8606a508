import * as z from 'zod';
import { limits, publicUrl, rateLimit, tls, trustedProxies } from './config-listening.ts';
import { addressRanges, CONTROL, duration, filePath, flag, matching, port } from './config-values.ts';
import { urlProblem, webhookSettings } from './destinations/webhooks/settings.ts';
import { MOST_ENTRIES } from './model/excess.ts';
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
      .meta({
        description: 'What clients of this source sign in with. Unique over all sources.',
        maxItems: MOST_ENTRIES,
      }),
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
      .meta({ description: 'Names of the sources it takes events from.', maxItems: MOST_ENTRIES }),
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

/** The whole configuration file, strict: a key it does not know is refused. contract.md section 3. `checkDocument` uses it. */
export const configDocument = z.strictObject(
  {
    host: SHARED_KEYS.host.exactOptional().meta({
      description:
        'The address to listen on. Default: 127.0.0.1 for `millrace dev`, 0.0.0.0 for `millrace start`.',
    }),
    port: SHARED_KEYS.port
      .default(8080)
      .meta({ description: 'The port to listen on; 0 takes any free one.' }),
    data: SHARED_KEYS.data.default('./data').meta({ description: 'The folder of the embedded engine.' }),
    log: SHARED_KEYS.log.default('info').meta({ description: 'The least important lines that are logged.' }),
    database: matching(/^postgres(ql)?:\/\/\S+$/, 'must be a postgres:// address')
      .exactOptional()
      .meta({ description: 'PostgreSQL instead of the embedded engine, for a cluster.', writeOnly: true }),
    admin: z
      .strictObject(
        {
          token: SHARED_KEYS.adminToken.exactOptional().meta({
            description:
              'The token of the control API with the role admin; at least 16 characters where the server listens on more than loopback.',
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
      .meta({ description: 'Where calls come from.', maxItems: MOST_ENTRIES }),
    destinations: z
      .array(destination, 'must be a list of destinations')
      .default([])
      .meta({ description: 'Where events go.', maxItems: MOST_ENTRIES }),
  },
  'must be a mapping of settings',
);
