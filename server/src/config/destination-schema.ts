import * as z from 'zod';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import { type DeliveryPolicy, liftPolicy } from '../model/delivery-policy.ts';
import { CALL_TYPES } from '../model/event.ts';
import { MAX_ENTRIES } from '../model/input-limits.ts';
import type { DestinationRecord } from '../model/settings.ts';
import type { DestinationType } from '../ports/destination-type.ts';
import { flag, longName, recordName } from './names.ts';

/** The most names that a filter may have, because it is checked for every event. */
const MAX_EVENT_NAMES = 100;

/** The highest rate limit, in requests per second. A faster endpoint needs none. */
const MAX_RATE = 100_000;

/** The concurrency that a worker reaches without a cap. A higher cap would have no effect. */
const MAX_CONCURRENCY = 256;

/** More names than a destination had anywhere. */
const MAX_INTEGRATION_NAMES = 20;

const INTEGRATION_NAMES_RULE = `must be a list of at most ${MAX_INTEGRATION_NAMES} names`;
const MAX_CATEGORIES = 20;
const CONSENT_RULE = `must be a list of 1 to ${MAX_CATEGORIES} ids of consent categories`;
const MAX_TRAITS = 20;
const TRAITS_RULE = `must be a list of 1 to ${MAX_TRAITS} names of traits`;
const AS_RULE = 'must be identify, track or both';
const NAMES_RULE = 'is of track events: set as to track or both beside it, or leave it out';
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

const TYPES = [...DESTINATION_TYPES.values()];

/** Keys of an integrations object that stand for every destination. */
const ALL_NAMES: readonly string[] = ['All', 'all'];

/**
 * Reserved names: in an integrations object they mean every destination of the type, or every destination.
 * spec/specification.md, "Integrations object".
 */
const RESERVED_NAMES: readonly string[] = [
  ...TYPES.flatMap(({ integrationNames }) => integrationNames.slice(0, 1)),
  ...ALL_NAMES,
];
const RESERVED_NAMES_RULE = `must not be ${wordList(RESERVED_NAMES)}: in an integrations object these stand for many destinations`;

/** `a, b or c`. */
function wordList(words: readonly string[]): string {
  return [words.slice(0, -1).join(', '), ...words.slice(-1)].filter(Boolean).join(' or ');
}

const integrationName = longName()
  .refine((name) => !ALL_NAMES.includes(name), {
    error: `must not be ${wordList(ALL_NAMES)}, which every destination answers to last`,
  })
  .meta({ not: { enum: [...ALL_NAMES] } });

const integrationNames = z
  .array(integrationName, INTEGRATION_NAMES_RULE)
  .max(MAX_INTEGRATION_NAMES, INTEGRATION_NAMES_RULE)
  .superRefine(refuseDoubles);

const consent = z
  .array(recordName(), CONSENT_RULE)
  .min(1, CONSENT_RULE)
  .max(MAX_CATEGORIES, CONSENT_RULE)
  .superRefine(refuseDoubles);

const TRACK_NAMES = ['enteredEvent', 'exitedEvent', 'traitEvent'] as const;

/** The name of a track event of changes. */
function eventName(usual: string) {
  return longName()
    .exactOptional()
    .meta({ description: `The name of this track event. When absent ${usual}.` });
}

const computations = z
  .strictObject(
    {
      as: z.enum(['identify', 'track', 'both'], AS_RULE).exactOptional().meta({
        description: 'The calls that it gets: an identify, a track, or one of each. When absent identify.',
      }),
      space: longName().exactOptional().meta({
        description: 'The namespace and space_id in context.personas. When absent it has neither.',
      }),
      enteredEvent: eventName('Audience Entered'),
      exitedEvent: eventName('Audience Exited'),
      traitEvent: eventName('Trait Computed'),
      email: flag().exactOptional().meta({
        description: 'One event for each e-mail address of the user, which it has. When absent false.',
      }),
      traits: z
        .array(longName(), TRAITS_RULE)
        .min(1, TRAITS_RULE)
        .max(MAX_TRAITS, TRAITS_RULE)
        .superRefine(refuseDoubles)
        .exactOptional()
        .meta({ description: 'Traits of the user that go with a membership or a value.' }),
    },
    'must be a mapping of as, space, enteredEvent, exitedEvent, traitEvent, email and traits',
  )
  .superRefine(({ as = 'identify', ...written }, context) => {
    for (const name of TRACK_NAMES)
      if (as === 'identify' && written[name] !== undefined)
        context.addIssue({ code: 'custom', path: [name], message: NAMES_RULE });
  })
  .meta({ description: 'The form in which it hears of audiences and computed traits.' });

function refuseDoubles(names: readonly string[], context: z.RefinementCtx): void {
  for (const [place, name] of names.entries())
    if (names.indexOf(name) < place)
      context.addIssue({ code: 'custom', path: [place], message: 'is named twice in this list' });
}

/** `Webhooks, Webhooks (Actions)`, of the type where there is one alone. */
const DEFAULT_NAMES = TYPES.map(({ integrationNames: names }) => names.join(', ')).find(Boolean) ?? 'none';

/** The keys that a destination of any type has among its settings. */
const policy = z.object({
  success: z.enum(['any', 'each'], 'must be any or each').default('any').meta({
    description: 'any: one accepted request ends the delivery. each: every URL is a delivery of its own.',
  }),
  filter: filter.exactOptional(),
  integrationNames: integrationNames.exactOptional().meta({
    description: `Names by which integrations objects of calls know it after its own, the first that is there decides; an empty list for none. Default: ${DEFAULT_NAMES}.`,
  }),
  consent: consent.exactOptional().meta({
    description:
      'Ids of consent categories: it gets the events of visitors who have consented to all of them, and of calls that say nothing of consent. Absent: whatever they say.',
  }),
  computations: computations.exactOptional(),
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

/** `destinations[].settings` as an operator writes it: what the type has, and what all have. */
export function writtenSettings(type: DestinationType): z.ZodObject {
  const { schema } = type.settings;
  const description = schema.description ?? `Settings of a destination of type ${type.name}.`;
  return schema.extend(policy.shape).meta({ description });
}

function recordOf(type: DestinationType) {
  return z.strictObject(
    {
      name: recordName()
        .refine((value) => !RESERVED_NAMES.includes(value), { error: RESERVED_NAMES_RULE })
        .meta({ description: 'Unique among the destinations.', not: { enum: [...RESERVED_NAMES] } }),
      type: z.literal(type.name, TYPE_RULE).meta({ description: 'The kind of destination.' }),
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
      settings: writtenSettings(type),
    },
    RECORD_RULE,
  );
}

const TYPE_RULE = `must be ${wordList(TYPES.map(({ name }) => name))}`;
const RECORD_RULE = 'must be a mapping with name, type, sources and settings';

/** An entry of `destinations`, as an operator writes it: a shape for each type. */
export const destinationSchema: z.ZodType<DestinationRecord> = anyOf(TYPES.map(recordOf)).transform(
  (written) => liftPolicy(written) as DestinationRecord,
);

/** Of one type the shape is that of its records, so that whoever has learned it finds nothing else. */
function anyOf(shapes: readonly ReturnType<typeof recordOf>[]) {
  const [first, ...others] = shapes;
  if (others.length === 0) return first!;
  return z.discriminatedUnion('type', [first!, ...others], {
    error: ({ code }) => (code === 'invalid_union' ? TYPE_RULE : RECORD_RULE),
  });
}
