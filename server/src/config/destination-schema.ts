import * as z from 'zod';
import { webhookSettingsSchema } from '../destinations/webhooks/settings.ts';
import { type DeliveryPolicy, liftPolicy } from '../model/delivery-policy.ts';
import { CALL_TYPES } from '../model/event.ts';
import { MAX_ENTRIES } from '../model/input-limits.ts';
import type { DestinationRecord } from '../model/settings.ts';
import { flag, recordName } from './names.ts';

/** The most names that a filter may have, because it is checked for every event. */
const MAX_EVENT_NAMES = 100;

/** The highest rate limit, in requests per second. A faster endpoint needs none. */
const MAX_RATE = 100_000;

/** The concurrency that a worker reaches without a cap. A higher cap would have no effect. */
const MAX_CONCURRENCY = 256;

const TYPES_RULE = `must be a list of types of calls: ${CALL_TYPES.join(', ')}`;
const EVENTS_RULE = `must be a list of 1 to ${MAX_EVENT_NAMES} names of track events`;
const EVENT_RULE = 'must be the name of a track event, or its beginning and *';
const STAR_RULE = 'must have no * but one at its end, which stands for any rest';
const RATE_RULE = `must be a whole number of requests a second, from 1 to ${MAX_RATE}`;
const CONCURRENCY_RULE = `must be a whole number of requests, from 1 to ${MAX_CONCURRENCY}`;

const filter = z
  .strictObject(
    {
      types: z
        .array(z.enum(CALL_TYPES, `must be one of ${CALL_TYPES.join(', ')}`), TYPES_RULE)
        .min(1, TYPES_RULE)
        .exactOptional()
        .meta({ description: 'Only calls of these types. All types when absent.' }),
      events: z
        .array(
          z
            .string(EVENT_RULE)
            .min(1, EVENT_RULE)
            .regex(/^[^*]*\*?$/, STAR_RULE),
          EVENTS_RULE,
        )
        .min(1, EVENTS_RULE)
        .max(MAX_EVENT_NAMES, EVENTS_RULE)
        .exactOptional()
        .meta({
          description:
            'Of track calls only those of these events, such as Order Placed; a * at the end stands for any rest. Case matters.',
        }),
    },
    'must be a mapping of types and events',
  )
  .meta({ description: 'Which events it gets. The others are skipped, with the reason filtered.' });

/**
 * Reserved names: in an integrations object they mean every destination of the type, or every destination.
 * spec/specification.md, "Integrations object".
 */
const RESERVED_NAMES: readonly string[] = ['Webhooks', 'All', 'all'];

/** What a destination of any type has among its settings. */
const policy = z.object({
  success: z.enum(['any', 'each'], 'must be any or each').default('any').meta({
    description: 'any: one accepted request ends the delivery. each: every URL is a delivery of its own.',
  }),
  filter: filter.exactOptional(),
  rateLimit: z.int(RATE_RULE).min(1, RATE_RULE).max(MAX_RATE, RATE_RULE).exactOptional().meta({
    description: 'The most requests a second that each URL gets, retries among them. Unlimited when absent.',
  }),
  concurrency: z
    .int(CONCURRENCY_RULE)
    .min(1, CONCURRENCY_RULE)
    .max(MAX_CONCURRENCY, CONCURRENCY_RULE)
    .exactOptional()
    .meta({
      description: `The most requests that each URL has to answer at once. When absent it adapts, up to ${MAX_CONCURRENCY}.`,
    }),
}) satisfies z.ZodType<DeliveryPolicy>;

/** `destinations[].settings` of a destination of type `webhooks`, as an operator writes it: what its type has, and what all have. */
export const webhookDestinationSettings = webhookSettingsSchema
  .extend(policy.shape)
  .meta({ description: 'Settings of a destination of type webhooks.' });

/** An entry of `destinations`, as an operator writes it. */
export const destinationSchema = z
  .strictObject(
    {
      name: recordName()
        .refine((value) => !RESERVED_NAMES.includes(value), {
          error:
            'must not be Webhooks, All or all: in an integrations object these stand for many destinations',
        })
        .meta({ description: 'Unique among the destinations.', not: { enum: RESERVED_NAMES } }),
      type: z.literal('webhooks', 'must be webhooks').meta({ description: 'The kind of destination.' }),
      sources: z
        .array(recordName(), 'must be a list of names of sources')
        .meta({ description: 'Names of the sources it takes events from.', maxItems: MAX_ENTRIES }),
      enabled: flag().default(true).meta({
        description:
          'While false, events that arrive are skipped and never sent; what is owed already waits.',
      }),
      paused: flag().exactOptional().meta({
        description:
          'While true, everything waits, what arrives too, for as long as retention.events keeps it. Absent: as it is, by millrace pause and resume.',
      }),
      settings: webhookDestinationSettings,
    },
    'must be a mapping with name, type, sources and settings',
  )
  .transform(liftPolicy) satisfies z.ZodType<DestinationRecord>;
