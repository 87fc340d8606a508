import ipaddr from 'ipaddr.js';
import * as z from 'zod';
import { urlProblem } from '../destinations/http/settings.ts';
import { DEFAULT_SERVER_BOUNDS } from '../http/admission.ts';
import { MAX_ENTRIES } from '../model/input-limits.ts';
import { NODE_ROLES } from '../model/node.ts';
import { parseSecretKey, SECRET_KEY_RULE } from '../model/secret-keys.ts';
import { isMaskedKey } from '../model/secrets.ts';
import { ADDRESS_RULES, AUDIENCES_SOURCE, type SourceRecord, TRUSTS } from '../model/settings.ts';
import type { IdentityLimits } from '../users/contract.ts';
import { MAX_COMPUTATIONS } from '../users/language/checks.ts';
import { alertSchema } from './alert-schema.ts';
import { audienceSchema, traitSchema } from './computation-schema.ts';
import { destinationSchema } from './destination-schema.ts';
import { CONTROL, duration, flag, period, recordName, size, textMatching } from './names.ts';

const PORT_RULE = 'must be a whole number from 0 to 65535';
const port = () => z.int(PORT_RULE).min(0, PORT_RULE).max(65_535, PORT_RULE);

const listenHost = () => textMatching(/^[^\s/]+$/, 'must be an address or a host name');

const filePath = () =>
  textMatching(new RegExp(`^[^${CONTROL}]+$`), 'must be text: the path of a file or folder');

const RANGE_RULE = 'must be an address range such as 10.20.0.0/16, 192.0.2.7/32 or fd00::/8';
const addressRange = z
  .string(RANGE_RULE)
  .superRefine((written, context) => {
    if (!isAddressRange(written))
      context.addIssue({ code: 'custom', message: RANGE_RULE, params: { found: true } });
  })
  .meta({ pattern: '^[0-9A-Fa-f.:]+/[0-9]{1,3}$' });

/** Stricter than the library alone, which also takes octal and shortened IPv4 addresses and IPv6 zones. */
function isAddressRange(written: string): boolean {
  const [address = '', bits = '', ...rest] = written.split('/');
  if (rest.length > 0 || !/^\d{1,3}$/.test(bits)) return false;
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return Number(bits) <= 32;
  return /^[0-9A-Fa-f.:]+$/.test(address) && ipaddr.IPv6.isValid(address) && Number(bits) <= 128;
}

const addressRanges = () => z.array(addressRange, 'must be a list of address ranges').default([]);

/** The keys that say how the port listens and how much it takes at once. */

const PUBLIC_URL_RULE =
  'must be an absolute http or https URL without a query, such as https://collect.example.com, or a list of such';

const onePublicUrl = () =>
  z
    .string(PUBLIC_URL_RULE)
    .refine((url) => urlProblem(url) === undefined && !/[?#]/.test(url), {
      error: PUBLIC_URL_RULE,
      params: { found: true },
    })
    .meta({ pattern: '^[hH][tT][tT][pP][sS]?://[^?#]+$' });

const publicUrl = () =>
  z
    .union([onePublicUrl(), z.array(onePublicUrl()).min(1).max(100)], PUBLIC_URL_RULE)
    .exactOptional()
    .meta({
      description:
        'Where clients reach this server, one address or several: the settings endpoint tells browsers and mobile clients the one ' +
        'whose host they asked, else the first.',
    });

const HOST_NAME_RULE = 'must be a host name without scheme and port, such as console.example.com';

const adminHosts = () =>
  z
    .array(
      textMatching(/^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?\.?$/, HOST_NAME_RULE),
      'must be a list of host names',
    )
    .max(100, 'must have at most 100 names')
    .default([])
    .meta({
      description:
        'Names of this server, beside localhost and those of publicUrl, by which control API, console and metrics answer on a loopback address.',
      examples: [['console.example.com']],
    });

const trustedProxies = () =>
  addressRanges().meta({
    description:
      'Addresses of proxies in front of the server; what they write in X-Forwarded-For is taken for where a request came from.',
    examples: [['127.0.0.1/32', '10.0.0.0/8']],
  });

const tls = () =>
  z
    .strictObject(
      {
        cert: filePath().meta({ description: 'Path of the certificate chain, PEM.' }),
        key: filePath().meta({ description: 'Path of the private key, PEM, without a passphrase.' }),
      },
      'must be a mapping of cert and key',
    )
    .exactOptional()
    .meta({ description: 'Serves https instead of http. Renewed files are served within a minute.' });

const COUNT_RULE = 'must be a whole number from 1 to 1000000';
const count = () => z.int(COUNT_RULE).min(1, COUNT_RULE).max(1_000_000, COUNT_RULE);

const RATE_RULE = 'must be a whole number from 0 to 1000000';

const rateLimit = () =>
  count().exactOptional().meta({
    description: 'Calls a second; beyond it clients are asked to wait (429). Without it there is no limit.',
  });

const limits = () =>
  z
    .strictObject(
      {
        connections: count().default(DEFAULT_SERVER_BOUNDS.connections).meta({
          description:
            'Open connections; more are closed as they come. Keep it below the limit of open files.',
        }),
        requests: count().default(DEFAULT_SERVER_BOUNDS.requests).meta({
          description: 'Requests between their head and their answer; more are answered 429.',
        }),
        requestBytes: size('64MB').prefault('64MB').meta({
          description:
            'Bodies of requests in memory, before and while they are stored; more are answered 429.',
        }),
        disk: size('500MB or 10GB').exactOptional().meta({
          description:
            'How much the data folder may take, profiles included, half for either: the oldest events go first, and profiles that no server source has named.',
        }),
        dedupeMemory: size('64MB').exactOptional().meta({
          description:
            'Memory that filters of deduplication may take; they need two bytes an event of the window. Default: 64MB, and 1GB where nodes share a database.',
        }),
      },
      'must be a mapping of connections, requests, requestBytes, disk and dedupeMemory',
    )
    .prefault({})
    .meta({ description: 'Bounds on what the server may use.' });

const WRITE_KEY_RULE = 'must be text of 1 to 100 visible ASCII characters without a colon';
const MASKED_KEY_RULE =
  'must be a whole write key, and not how one ends, which is all that a viewer sees: take it from the export of an editor';
const writeKey = z.string(WRITE_KEY_RULE).regex(/^[!-9;-~]{1,100}$/, {
  error: ({ input }) => (isMaskedKey(String(input)) ? MASKED_KEY_RULE : WRITE_KEY_RULE),
});

const FORWARDED_SECRET_RULE = 'must be text of 1 to 1000 characters';

const forwarded = () =>
  z
    .strictObject(
      {
        sharedSecret: z
          .string(FORWARDED_SECRET_RULE)
          .regex(/^(?!…)[\s\S]{1,1000}$/, {
            error: ({ input }) => (isMaskedKey(String(input)) ? MASKED_KEY_RULE : FORWARDED_SECRET_RULE),
          })
          .exactOptional()
          .meta({
            description:
              'Forwarded calls are taken only with an X-Signature made with this: the HMAC with SHA-1 of the body, or of the first call of a list.',
          }),
      },
      'must be a mapping of sharedSecret',
    )
    .exactOptional()
    .meta({
      description:
        'How calls are checked that another service passes on to /v1/forwarded; by the key alone when absent.',
    });

const PROJECT_RULE = 'must be text of 1 to 100 visible ASCII characters';
const SCRIPT_PATH_RULE =
  'must be a path of two names or more that ends with .js, such as /acme/shop.js, and no path of the server';

/** The first names of paths that are of the server, or of its console. */
const TAKEN_PATHS =
  'v1|api|compat|assets|beacon|analytics\\.js|analytics-next|next-integrations|sourceConfig|\\.well-known|metrics|healthz|readyz';

const scriptPath = () =>
  textMatching(new RegExp(`^(?!/(${TAKEN_PATHS})/)(/[A-Za-z0-9_.~-]+){2,8}\\.js$`), SCRIPT_PATH_RULE)
    .max(200, SCRIPT_PATH_RULE)
    .exactOptional()
    .meta({
      description:
        'A path by which pages load the browser library with the first write key of this source, beside /analytics.js/v1/…: the one that a domain of your own has had.',
      examples: ['/acme/shop.js'],
    });

/** An entry of `sources`, as an operator writes it. */
export const sourceSchema = z.strictObject(
  {
    name: recordName()
      .refine((value) => value !== AUDIENCES_SOURCE.name, {
        error: `must not be ${AUDIENCES_SOURCE.name}: the server makes this source for the events of audiences and traits`,
      })
      .meta({
        description: 'Unique among the sources. Destinations refer to it.',
        not: { const: AUDIENCES_SOURCE.name },
      }),
    writeKeys: z
      .array(writeKey, 'must be a list of write keys')
      .min(1, 'must have at least 1 write key')
      .meta({
        description: 'What clients of this source sign in with. Unique over all sources.',
        maxItems: MAX_ENTRIES,
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
    rateLimitPerAddress: z.int(RATE_RULE).min(0, RATE_RULE).max(1_000_000, RATE_RULE).exactOptional().meta({
      description:
        'Calls a second from one public address; 0 for no limit. 200 when absent for a source whose trust is client, and no limit for one of server.',
    }),
    ip: z.enum(ADDRESS_RULES, 'must be keep, shorten, drop or direct').exactOptional().meta({
      description:
        'context.ip: keep fills it in for calls straight from a browser or a phone; shorten keeps only the beginning of every address; drop keeps none; direct fills it in for calls with context.direct alone. Absent: as it is, keep for a new source.',
    }),
    shadow: z.literal(true, 'must be true or left out').exactOptional().meta({
      description:
        'Its events are stored and found, and neither delivered nor part of profiles: millrace compare compares them with those of another source. Decided when the source is made.',
    }),
    projectId: z
      .string(PROJECT_RULE)
      .regex(/^[!-~]{1,100}$/, PROJECT_RULE)
      .exactOptional()
      .meta({
        description:
          'The projectId of its events where a destination has the format segment. Its name when absent.',
      }),
    trust: z.enum(TRUSTS, 'must be server or client').exactOptional().meta({
      description:
        'Who can have the write keys: server for programs of yours alone; client for a website or an app, whose keys everybody can read. Only calls of a server source join two users. Absent: as it is, client for a new source.',
    }),
    consent: z.literal('required', 'must be required').exactOptional().meta({
      description:
        'required: a call that says nothing of consent consents to nothing, so that destinations with consent categories do not get it. Absent: they do.',
    }),
    scriptPath: scriptPath(),
    forwarded: forwarded(),
  },
  'must be a mapping with name and writeKeys',
) satisfies z.ZodType<SourceRecord>;

/** Alerts that a server has at most. Each is decided about at every look. */
const MAX_ALERTS = 100;

/** Values that many clients send for "nobody". Texts of zeros and the empty text are always among them. */
const BLOCKED_IDS = ['null', 'undefined', 'anonymous', '-1', '0'];

/** Anonymous and external ids that one profile may have at most. spec/specification.md, "Identities". */
const MAX_IDENTITIES = 1000;

const LIMIT_RULE = `must be a whole number from 1 to ${MAX_IDENTITIES}`;

const identityLimit = (most: number, description: string) =>
  z.int(LIMIT_RULE).min(1, LIMIT_RULE).max(MAX_IDENTITIES, LIMIT_RULE).default(most).meta({ description });

/**
 * `limit` is from the time before there were two: nine tenths of it were anonymous ids, as good as always.
 */
function limitsOf(limit: number): IdentityLimits {
  const externalIds = Math.max(1, Math.floor(limit / 10));
  return { anonymousIds: Math.max(1, limit - externalIds), externalIds };
}
const TRAIT_NAMES_RULE = 'must be a list of names of traits, such as email';
const BLOCKED_RULE = 'must be a list of texts in quotes';

const identities = () =>
  z
    .strictObject(
      {
        externalIds: z
          .array(
            z.string(TRAIT_NAMES_RULE).min(1, TRAIT_NAMES_RULE).max(100, TRAIT_NAMES_RULE),
            TRAIT_NAMES_RULE,
          )
          .max(10, 'must have at most 10 names')
          .default([])
          .meta({
            description:
              'Traits of identify calls that join an anonymous profile to the user who has the same value.',
            examples: [['email']],
          }),
        blocked: z.array(z.string(BLOCKED_RULE), BLOCKED_RULE).default(BLOCKED_IDS).meta({
          description:
            'Ids that stand for nobody and join nothing. The empty text and texts of zeros never do.',
          maxItems: MAX_ENTRIES,
        }),
        limits: z
          .strictObject(
            {
              anonymousIds: identityLimit(900, 'Anonymous ids of one profile at most.'),
              externalIds: identityLimit(100, 'External ids of one profile at most.'),
            },
            'must be a mapping of anonymousIds and externalIds',
          )
          .exactOptional()
          .meta({ description: 'Ids of one profile at most. UserIds do not count.' }),
        limit: z.int(LIMIT_RULE).min(1, LIMIT_RULE).max(MAX_IDENTITIES, LIMIT_RULE).exactOptional().meta({
          description:
            'Both limits in one: nine tenths for anonymous ids, one for external ids. Not beside limits.',
        }),
        alias: z.enum(['join', 'refuse'], 'must be join or refuse').default('join').meta({
          description: 'Whether an alias of a server source makes two users one.',
        }),
      },
      'must be a mapping of externalIds, blocked, limits and alias',
    )
    .check(({ value: { limit, limits }, issues }) => {
      if (limit === undefined || limits === undefined) return;
      const message = 'cannot be set beside limits: remove it';
      issues.push({ code: 'custom', path: ['limit'], message, input: limit });
    })
    .transform(({ limit = MAX_IDENTITIES, limits = limitsOf(limit), ...others }) => ({ ...others, limits }))
    .prefault({})
    .meta({ description: 'How ids are joined to profiles of users.' });

const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;

function secretKeyText() {
  return z
    .string(SECRET_KEY_RULE)
    .refine((text) => parseSecretKey(text) !== undefined, { error: SECRET_KEY_RULE })
    .meta({ pattern: '^([0-9a-fA-F]{64}|[A-Za-z0-9+/_-]{43}=?)$' });
}

const NODE_RULE = 'must be a name of letters, digits, dots, dashes and underscores, 63 characters at most';

/** The keys that the environment and flags can set too, each with its rule. */
export const SHARED_KEYS = {
  host: listenHost(),
  port: port(),
  data: filePath(),
  log: z.enum(LOG_LEVELS, 'must be debug, info, warn or error'),
  adminHost: listenHost(),
  adminPort: port(),
  adminToken: textMatching(/^[!-~]+$/, 'must be text of visible ASCII characters'),
  database: textMatching(/^postgres(ql)?:\/\/\S+$/, 'must be a postgres:// address'),
  node: textMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, NODE_RULE),
  trustedProxies: addressRanges(),
  secretsKey: secretKeyText(),
  secretsKeyFile: filePath(),
};

const SECRET_KEY_OR_FILE_RULE = `${SECRET_KEY_RULE}, or { file: PATH } of a file that holds it`;

const secretKey = () =>
  z.union(
    [
      secretKeyText(),
      z.strictObject(
        { file: filePath().meta({ description: 'Path of a file with the key alone.' }) },
        SECRET_KEY_OR_FILE_RULE,
      ),
    ],
    SECRET_KEY_OR_FILE_RULE,
  );

/**
 * Keys that secrets were encrypted with before: of a change at most one is needed, and of several restored
 * backups some.
 */
const MAX_PREVIOUS_KEYS = 10;

const PREVIOUS_KEYS_RULE = `must be a list of at most ${MAX_PREVIOUS_KEYS} keys`;

const secrets = () =>
  z
    .strictObject(
      {
        key: secretKey().exactOptional().meta({
          description:
            'Encrypts shared and signing secrets, values of headers and passwords in the store and its backups: 32 bytes in base64, best from a variable, or { file: PATH }. Whoever loses it loses these secrets.',
          writeOnly: true,
        }),
        previousKeys: z
          .array(secretKey(), PREVIOUS_KEYS_RULE)
          .max(MAX_PREVIOUS_KEYS, PREVIOUS_KEYS_RULE)
          .default([])
          .meta({
            description:
              'Keys of before. What is encrypted with one of them is encrypted with key at the next start, and without key stored as it is.',
            writeOnly: true,
          }),
      },
      'must be a mapping of key and previousKeys',
    )
    .prefault({})
    .meta({ description: 'How secrets are kept in the store and in backups.' });

const ROLES_RULE = 'must be a list of one or more of ingest, deliver, users and control';

const roles = () =>
  z
    .array(z.enum(NODE_ROLES, 'must be ingest, deliver, users or control'), ROLES_RULE)
    .min(1, ROLES_RULE)
    .exactOptional()
    .meta({
      description:
        'What this node does, where several share a database: ingest takes calls, deliver sends to destinations, users keeps profiles, ' +
        'control serves the control API. Default: all.',
      uniqueItems: true,
    });

const THREADS_RULE = 'must be auto or a whole number from 0 to 16';

const threads = () =>
  z
    .union([z.literal('auto'), z.int(THREADS_RULE).min(0, THREADS_RULE).max(16, THREADS_RULE)], THREADS_RULE)
    .default('auto')
    .meta({
      description:
        'Threads that send requests to endpoints, so that the main thread need not; 0 sends on the main thread. auto: none on up to 2 cores, 1 on 3, 2 on more.',
    });

const PROXY_RULE = 'must be an absolute http or https URL';

/**
 * The whole configuration file, strict: a key it does not know is refused. spec/contract.md, "Configuration
 * file". `validateDocument` uses it.
 */
export const configFileSchema = z.strictObject(
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
    database: SHARED_KEYS.database.exactOptional().meta({
      description: 'PostgreSQL 15 or newer instead of the embedded engine, for any number of nodes.',
      writeOnly: true,
    }),
    node: SHARED_KEYS.node.exactOptional().meta({
      description:
        'The name of this node, different from those of all others on the same database. Default: the host name.',
    }),
    roles: roles(),
    admin: z
      .strictObject(
        {
          token: SHARED_KEYS.adminToken.exactOptional().meta({
            description:
              'The token of the control API with the role admin; at least 16 characters where the server listens on more than loopback.',
            writeOnly: true,
          }),
          host: SHARED_KEYS.adminHost.exactOptional().meta({
            description:
              'The address that admin.port listens on, such as 127.0.0.1 or one inside the cluster. Default: host.',
          }),
          port: SHARED_KEYS.adminPort.exactOptional().meta({
            description:
              'A port of their own for control API, console and metrics; the other then takes calls only.',
          }),
          hosts: adminHosts(),
        },
        'must be a mapping of token, host, port and hosts',
      )
      .prefault({})
      .meta({ description: 'Access to the control API.' }),
    retention: z
      .strictObject(
        {
          events: duration().prefault('7d').meta({ description: 'How long events are kept.' }),
          deadLetters: duration().prefault('30d').meta({ description: 'How long dead letters are kept.' }),
          profiles: z
            .strictObject(
              {
                anonymous: period().exactOptional().meta({
                  description:
                    'Profiles without a userId, after the newest event. Default: 90d, and off in an installation of an earlier version.',
                }),
                known: period().exactOptional().meta({
                  description:
                    'Profiles with a userId, after the newest event. Default: off, which keeps them.',
                }),
              },
              'must be a mapping of anonymous and known',
            )
            .prefault({})
            .meta({ description: 'How long profiles of users are kept.' }),
          audit: period().exactOptional().meta({
            description:
              'How long the audit trail is kept. Default: 1y, and off in an installation of an earlier version.',
          }),
          regulations: period().exactOptional().meta({
            description:
              'How long receipts of regulations are kept; whom they suppress stays suppressed. Default: 1y, and off in an installation of an earlier version.',
          }),
        },
        'must be a mapping of events, deadLetters, profiles, audit and regulations',
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
    browserLibrary: filePath()
      .exactOptional()
      .meta({
        description:
          'A folder with standalone.js and its chunks, the dist/umd of @segment/analytics-next, for pages whose snippet names this server. Absent: those of the installed package.',
        examples: ['/srv/analytics-next/dist/umd'],
      }),
    trustedProxies: trustedProxies(),
    tls: tls(),
    secrets: secrets(),
    metrics: z
      .strictObject(
        { public: flag().default(false).meta({ description: 'Serves /metrics without a token.' }) },
        'must be a mapping of public',
      )
      .prefault({})
      .meta({ description: 'The Prometheus page.' }),
    limits: limits(),
    threads: threads(),
    profiles: z.enum(['auto', 'on', 'off'], 'must be auto, on or off').default('auto').meta({
      description:
        'Whether profiles of users are kept: auto keeps them from the first audience or computed trait on; off keeps none.',
    }),
    identities: identities(),
    sources: z
      .array(sourceSchema, 'must be a list of sources')
      .default([])
      .meta({ description: 'Where calls come from.', maxItems: MAX_ENTRIES }),
    destinations: z
      .array(destinationSchema, 'must be a list of destinations')
      .prefault([])
      .meta({ description: 'Where events go.', maxItems: MAX_ENTRIES }),
    audiences: z.array(audienceSchema, 'must be a list of audiences').default([]).meta({
      description: 'Conditions on users, whose members destinations are told.',
      maxItems: MAX_COMPUTATIONS,
    }),
    traits: z.array(traitSchema, 'must be a list of computed traits').default([]).meta({
      description: 'Values made of events, which destinations are told.',
      maxItems: MAX_COMPUTATIONS,
    }),
    alerts: z.array(alertSchema, 'must be a list of alerts').default([]).meta({
      description:
        'Who is told, by webhook or mail, when a destination fails, deliveries die or the server needs a person.',
      maxItems: MAX_ALERTS,
    }),
  },
  'must be a mapping of settings',
);
