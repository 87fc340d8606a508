import * as z from 'zod';
import { addressRanges, filePath, size } from './config-values.ts';
import { urlProblem } from './destinations/webhooks/settings.ts';
import { DEFAULT_BOUNDS } from './http/in-flight.ts';

/** The keys that say how the port listens and how much it takes at once. */

const PUBLIC_URL_RULE =
  'must be an absolute http or https URL without a query, such as https://collect.example.com';

export const publicUrl = () =>
  z
    .string(PUBLIC_URL_RULE)
    .refine((url) => urlProblem(url) === undefined && !/[?#]/.test(url), {
      error: PUBLIC_URL_RULE,
      params: { found: true },
    })
    .exactOptional()
    .meta({
      description:
        'Where clients reach this server; the settings endpoint tells browsers and mobile clients.',
      pattern: '^[hH][tT][tT][pP][sS]?://[^?#]+$',
    });

export const trustedProxies = () =>
  addressRanges().meta({
    description:
      'Addresses of proxies in front of the server; what they write in X-Forwarded-For is taken for where a request came from.',
    examples: [['127.0.0.1/32', '10.0.0.0/8']],
  });

export const tls = () =>
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

export const rateLimit = () =>
  count().exactOptional().meta({
    description: 'Calls a second; beyond it clients are asked to wait (429). Without it there is no limit.',
  });

export const limits = () =>
  z
    .strictObject(
      {
        connections: count().default(DEFAULT_BOUNDS.connections).meta({
          description:
            'Open connections; more are closed as they come. Keep it below the limit of open files.',
        }),
        requests: count().default(DEFAULT_BOUNDS.requests).meta({
          description: 'Requests between their head and their answer; more are answered 429.',
        }),
        requestBytes: size('64MB').prefault('64MB').meta({
          description:
            'Bodies of requests in memory, before and while they are stored; more are answered 429.',
        }),
        disk: size('500MB or 10GB')
          .exactOptional()
          .meta({ description: 'How much the data folder may take; the oldest events go first.' }),
        dedupeMemory: size('64MB').prefault('64MB').meta({
          description: 'Memory for the filters of deduplication, two bytes an event of the window.',
        }),
      },
      'must be a mapping of connections, requests, requestBytes, disk and dedupeMemory',
    )
    .prefault({})
    .meta({ description: 'Bounds on what the server may use.' });
