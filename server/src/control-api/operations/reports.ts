import * as z from 'zod';
import { DESTINATION_STATES } from '../../model/destination.ts';
import type { DestinationCounts, SourceCounts } from '../../model/ledger.ts';
import type { DiskParts } from '../../ports/disk-use.ts';
import { VALUE_CHANGES, type ValueChanges } from '../../ports/telemetry.ts';
import type {
  AttemptTrace,
  CommitsOverview,
  DamageTrace,
  DatabaseOverview,
  DeliveryTrace,
  DestinationErrorView,
  DiscardReport,
  DiscardSample,
  DiscardTrace,
  DiskOverview,
  EndpointErrorView,
  EndpointOverview,
  EventTrace,
  GoneNodeOverview,
  LaneOverview,
  LedgerReport,
  LogOverview,
  NodeOverview,
  Overview,
  ProfilesOverview,
  RegulationsOverview,
  Trace,
  UnattributedCalls,
} from '../../reporting/contract.ts';
import { textInQuery } from '../ids.ts';
import { type ApiOperation, defineOperation, type Shape } from '../operation.ts';
import { shownTrace } from '../shown-events.ts';
import { ASKED_SOURCE } from '../token-limits.ts';

/** The reports on the server. They change nothing. */
export interface Reports {
  ledger(): Promise<LedgerReport>;
  overview(): Promise<Overview>;
  discards(): Promise<DiscardReport>;
  trace(messageId: string, source?: string): Promise<Trace>;
}

const countsByReason = z.record(z.string(), z.int());

const ledgerFields = {
  sources: z.record(
    z.string(),
    z.object({
      received: z.int(),
      accepted: z.int(),
      discarded: countsByReason,
      duplicates: z.int(),
    } satisfies Shape<SourceCounts>),
  ),
  destinations: z.record(
    z.string(),
    z.object({
      owed: z.int(),
      delivered: z.int(),
      pending: z.int(),
      dead: countsByReason,
      dropped: countsByReason,
      erased: z.int(),
      skipped: countsByReason,
      balance: z.int(),
    } satisfies Shape<DestinationCounts & { readonly balance: number }>),
  ),
  balanced: z.boolean(),
  differences: z.array(z.looseObject({ difference: z.int() })),
} satisfies Shape<LedgerReport>;

const discardSchema = z.object({
  source: z.string().exactOptional(),
  reason: z.string(),
  at: z.string(),
  call: z.string(),
  cut: z.boolean(),
} satisfies Shape<DiscardSample>);

/** The health of one endpoint. */
export const endpointFields = {
  endpoint: z.string(),
  state: z.enum(['healthy', 'failing']),
  since: z.string().exactOptional(),
  lastError: z
    .object({
      at: z.string(),
      reason: z.string(),
      status: z.int().exactOptional(),
      answer: z.string().exactOptional(),
    } satisfies Shape<EndpointErrorView>)
    .exactOptional(),
} satisfies Shape<EndpointOverview>;

/** The last failure of a destination. */
export const destinationErrorSchema = z.object({
  reason: z.string(),
  endpoint: z.string(),
  at: z.string(),
} satisfies Shape<DestinationErrorView>);

const laneSchema = z.object({
  state: z.enum(DESTINATION_STATES),
  held: z.int(),
  onDisk: z.int(),
  retrying: z.int(),
  oldestPendingAt: z.string().exactOptional(),
  oldestKeptUntil: z.string().exactOptional(),
  nextDueAt: z.string().exactOptional(),
  nextProbeAt: z.string().exactOptional(),
  failingSince: z.string().exactOptional(),
  refusingSince: z.string().exactOptional(),
  failure: z.string().exactOptional(),
  lastError: destinationErrorSchema.exactOptional(),
  endpoints: z.array(z.object(endpointFields)),
} satisfies Shape<LaneOverview>);

const overviewSchema = z.object({
  at: z.string(),
  startedAt: z.string(),
  version: z.string().meta({ description: 'Of Millrace.' }),
  nodeVersion: z.string().meta({ description: 'Of the Node.js that runs it.' }),
  storeId: z
    .string()
    .meta({ description: 'The id of its store: the same for all nodes that share it, and for its copies.' }),
  ...ledgerFields,
  lanes: z.record(z.string(), laneSchema),
  callsOfNoSource: z.object({
    discarded: countsByReason,
    refused: countsByReason,
  } satisfies Shape<UnattributedCalls>),
  changedValues: z
    .record(
      z.string(),
      z.object({
        counts: z.object(Object.fromEntries(VALUE_CHANGES.map((kind) => [kind, z.int().exactOptional()]))),
        unreadableTime: z
          .string()
          .exactOptional()
          .meta({ description: 'The last time that could not be read, as the client wrote it, cut.' }),
      } satisfies Shape<ValueChanges>),
    )
    .meta({ description: 'Values of accepted calls that were changed, by source, since the start.' }),
  publicCalls: z.record(z.string(), z.int()).meta({
    description:
      'Calls of browsers and phones to sources with `trust: server`, by source, since the start: at least so many. Their write keys are public.',
  }),
  rateLimitedRequests: z.record(z.string(), z.int()).meta({
    description:
      'Requests answered 429 because a source is over its `rateLimit`, by source, since the start.',
  }),
  discards: z.array(discardSchema),
  log: z.object({
    events: z.int(),
    bytes: z.int(),
    oldestAt: z.string().exactOptional(),
    damage: z
      .object({
        events: z.int(),
        deliveries: z.int(),
        foundAt: z.string().exactOptional(),
        others: z.array(z.string()).exactOptional(),
      } satisfies Shape<NonNullable<LogOverview['damage']>>)
      .exactOptional()
      .meta({ description: 'What was stored and cannot be read any more; absent while everything can.' }),
  } satisfies Shape<LogOverview>),
  disk: z
    .object({
      size: z.int(),
      free: z.int(),
      used: z.int().meta({ description: 'Of the files in the data folder.' }),
      parts: z
        .object({
          store: z.int().exactOptional(),
          writeAheadLog: z.int().exactOptional(),
          profiles: z.int().exactOptional(),
          timeline: z.int().exactOptional(),
          other: z.int().exactOptional(),
        } satisfies Shape<DiskParts>)
        .meta({ description: 'What `used` is made of; a part that takes no space is absent.' }),
      limit: z.int().exactOptional().meta({
        description: '`limits.disk`: the oldest events go before `log.bytes` is above it.',
      }),
    } satisfies Shape<DiskOverview>)
    .exactOptional()
    .meta({
      description: 'The disk of the data folder, in bytes; absent where it cannot be asked.',
    }),
  commits: z
    .object({
      count: z.int(),
      p50Ms: z.number().exactOptional(),
      p99Ms: z.number().exactOptional(),
    } satisfies Shape<CommitsOverview>)
    .meta({
      description:
        'Commits of the last quarter of an hour: how many, and how long they took from asking for one until it was on stable storage.',
    }),
  profiles: z
    .object({
      state: z.enum(['live', 'catching_up', 'failed']),
      reason: z.string().exactOptional().meta({ description: 'Why they stand still, with what to do.' }),
      profiles: z.int(),
      bytes: z.int().meta({ description: 'Of their file.' }),
      behind: z.int().meta({ description: 'Stored events that they have not seen.' }),
      lagMs: z.int().meta({ description: 'Since the oldest of them arrived.' }),
      failed: z
        .array(z.string())
        .meta({ description: 'Audiences and computed traits that cannot be computed; the others go on.' }),
      skipped: z.int().meta({ description: 'Events that do not count, because Millrace failed on them.' }),
    } satisfies Shape<ProfilesOverview>)
    .exactOptional()
    .meta({ description: 'Absent while nothing needs profiles.' }),
  regulations: z.object({
    open: z.int().meta({ description: 'Deletions and suppressions that are not done.' }),
    oldestAt: z.string().exactOptional().meta({ description: 'When the oldest of them was made.' }),
    isFailing: z.boolean().meta({ description: 'A step of one fails and is repeated.' }),
    suppressed: z.int().meta({ description: 'Ids whose calls are not taken, joined ones included.' }),
  } satisfies Shape<RegulationsOverview>),
  nodes: z
    .array(
      z.object({
        name: z.string(),
        isSelf: z.literal(true).exactOptional(),
        roles: z.array(z.string()),
        version: z.string(),
        since: z.string(),
        leaseLeftMs: z.int(),
        jobs: z.array(z.string()),
      } satisfies Shape<NodeOverview>),
    )
    .exactOptional()
    .meta({ description: 'The nodes that share the database; absent with the embedded engine.' }),
  goneNodes: z
    .array(
      z.object({
        name: z.string(),
        roles: z.array(z.string()),
        version: z.string(),
        lastSeenAt: z.string().meta({ description: 'When it last renewed its lease.' }),
        takenOverAt: z.string().meta({ description: 'When another node took over its deliveries.' }),
        takenOverBy: z.string().meta({ description: 'The name of that node.' }),
      } satisfies Shape<GoneNodeOverview>),
    )
    .exactOptional()
    .meta({
      description:
        'Nodes that died in the last hour and are not back; none that was stopped. Absent with the embedded engine.',
    }),
  database: z
    .object({
      version: z.string().meta({ description: 'Of PostgreSQL.' }),
      standbys: z.array(
        z.object({
          name: z.string(),
          isSynchronous: z.boolean().exactOptional().meta({
            description:
              'Commits wait for it. Absent, as the other two, when the user of the database may not see it.',
          }),
          behindBytes: z.int().exactOptional().meta({ description: 'Of the log, not on its disk yet.' }),
          behindMs: z
            .int()
            .exactOptional()
            .meta({ description: 'How long a commit took to reach its disk.' }),
        } satisfies Shape<DatabaseOverview['standbys'][number]>),
      ),
      problems: z.array(
        z.object({
          isSevere: z.boolean().meta({ description: 'Events are in danger, or nothing is stored.' }),
          found: z.string(),
          advice: z.string().meta({ description: 'What to do.' }),
        } satisfies Shape<DatabaseOverview['problems'][number]>),
      ),
    } satisfies Shape<DatabaseOverview>)
    .exactOptional()
    .meta({ description: 'The database that they share.' }),
} satisfies Shape<Overview>);

export const deliveryState = z.enum(['pending', 'retrying', 'delivered', 'dead', 'dropped']);

export const attemptSchema = z.object({
  endpoint: z.string(),
  startedAt: z.string(),
  latencyMs: z.number(),
  outcome: z.enum(['accepted', 'retryable', 'refused']),
  reason: z.string(),
  status: z.int().exactOptional(),
  answer: z.string().exactOptional(),
} satisfies Shape<AttemptTrace>);

const tracedDeliverySchema = z.object({
  id: z.string(),
  destination: z.string(),
  state: deliveryState,
  reason: z.string().exactOptional(),
  note: z.string().exactOptional().meta({ description: 'What its type says about a dropped one.' }),
  nextAttemptAt: z.string().exactOptional(),
  attempts: z.array(attemptSchema),
} satisfies Shape<DeliveryTrace>);

const eventTraceSchema = z.object({
  source: z.string(),
  receivedAt: z.string(),
  verdict: z.literal('accepted'),
  event: z.looseObject({ messageId: z.string() }),
  deliveries: z.array(tracedDeliverySchema),
  skipped: z.array(z.object({ destination: z.string(), reason: z.string() })),
} satisfies Shape<EventTrace>);

/** A `TraceEntry`. */
export const tracedCallSchema = z.union([
  eventTraceSchema,
  z.object({
    verdict: z.literal('damaged'),
    deliveries: z.array(tracedDeliverySchema),
  } satisfies Shape<Omit<DamageTrace, 'source' | 'receivedAt'>>),
  z.object({
    source: z.string().exactOptional(),
    receivedAt: z.string(),
    verdict: z.literal('discarded'),
    reason: z.string(),
    call: z.string().exactOptional().meta({ description: 'Absent for a token without bodies.' }),
  } satisfies Shape<DiscardTrace>),
]);

export function reportOperations(reports: Reports): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'ledger',
      role: 'viewer',
      summary: 'Shows the sums of every source and destination, and whether they come out',
      answer: z.object(ledgerFields),
      run: () => reports.ledger(),
    }),
    defineOperation({
      method: 'GET',
      path: 'status',
      role: 'viewer',
      summary: 'Shows what somebody on call wants to see at once',
      answer: overviewSchema,
      run: () => reports.overview(),
    }),
    defineOperation({
      method: 'GET',
      path: 'discards',
      role: 'viewer',
      isInMemory: true,
      showsBodies: true,
      summary: 'Shows the last discarded calls of every source and reason',
      answer: z.object({ data: z.array(discardSchema) }),
      run: () => reports.discards(),
    }),
    defineOperation({
      method: 'GET',
      path: 'events/:messageId',
      role: 'viewer',
      summary: "Shows an event's whole life: received, planned, every attempt, what happens next",
      query: z.object({ source: textInQuery.exactOptional() }),
      answer: z.object({ data: z.array(tracedCallSchema) }),
      isWithin: ASKED_SOURCE,
      run: async ({ names, query, client: { caller } }) => {
        const { data } = await reports.trace(names['messageId'] ?? '', query.source);
        return { data: data.map((entry) => shownTrace(caller, entry)) };
      },
    }),
  ];
}
