import * as z from 'zod';
import type { TestAttempt } from '../../delivery/contract.ts';
import type { Destination } from '../../model/destination.ts';
import type { Event } from '../../model/event.ts';
import { CALL_TYPES, type CallType } from '../../model/event.ts';
import { defined } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import type { DestinationStatus } from '../../reporting/contract.ts';
import { diffRecords } from '../changes.ts';
import { type ApiOperation, defineOperation, type OperationInput } from '../operation.ts';
import { destinationByName, type RecordDependencies } from '../records.ts';
import { type HeaderMask, headerMaskOf, requestSchema, requestView } from '../request-view.ts';
import { NAMED_DESTINATION } from '../token-limits.ts';
import { attemptSchema } from './reports.ts';

/** An event of a type as an ordinary client sends it, for the test of a destination. */
function sampleEvent(type: CallType, messageId: string, now: Time): Event {
  const at = new Date(now).toISOString();
  return {
    messageId,
    type,
    channel: 'server',
    userId: 'test-user',
    ...FIELDS_BY_TYPE[type],
    context: { library: { name: 'millrace-test', version: '1.0.0' } },
    integrations: {},
    timestamp: at,
    receivedAt: at,
  };
}

const FIELDS_BY_TYPE: Readonly<Record<CallType, Partial<Event>>> = {
  identify: { traits: { name: 'Test User', email: 'test@example.com' } },
  track: { event: 'Test Event', properties: { total: 9.5, currency: 'EUR' } },
  page: { name: 'Home', properties: { url: 'https://example.com/', title: 'Home' } },
  screen: { name: 'Home', properties: {} },
  group: { groupId: 'test-group', traits: { name: 'Test Group' } },
  alias: { previousId: 'test-anonymous' },
};

export interface DestinationActionDependencies
  extends Pick<RecordDependencies, 'settings' | 'clock' | 'types'> {
  /** Sends an event to every endpoint once, as a delivery would, and stores nothing. */
  readonly tryOut: (event: Event, destination: Destination) => Promise<readonly TestAttempt[]>;
  readonly newMessageId: () => string;
  readonly statusOf: (
    destination: Destination,
  ) => Promise<Pick<DestinationStatus, 'pending' | 'oldestPendingAt' | 'oldestKeptUntil'>>;
}

/** The switches of a destination afterwards, and its pending deliveries. */
const switchSchema = z.object({
  name: z.string(),
  enabled: z.boolean(),
  paused: z.boolean(),
  pending: z.int(),
  oldestPendingAt: z.string().exactOptional(),
  oldestKeptUntil: z.string().exactOptional(),
});

const testSchema = z.object({
  data: z.array(
    z.object({
      request: requestSchema,
      // The request names its URL, and the endpoint is no second time beside it.
      ...attemptSchema.omit({ endpoint: true }).shape,
      outcome: z.enum([...attemptSchema.shape.outcome.options, 'dropped']),
    }),
  ),
});

/** spec/contract.md, "Operations on destinations". */
export function destinationActionOperations(dependencies: DestinationActionDependencies): ApiOperation[] {
  const { settings } = dependencies;
  return [
    ...switchOperations(dependencies),
    defineOperation({
      method: 'POST',
      path: 'destinations/:name/test',
      role: 'editor',
      isInMemory: true,
      isWithin: NAMED_DESTINATION,
      summary: 'Sends an example of an event to every endpoint, once, and shows what was sent and answered',
      body: z.strictObject({ type: z.enum(CALL_TYPES).default('track') }),
      answer: testSchema,
      problems: ['unknown_name'],
      run: async ({ names, body }) => {
        const destination = destinationByName(names['name'] ?? '', settings.now());
        const event = sampleEvent(body.type, dependencies.newMessageId(), dependencies.clock.now());
        const trials = await dependencies.tryOut(event, destination);
        const mask = headerMaskOf(destination, dependencies.types);
        return { data: trials.map((trial) => testResultView(trial, mask)) };
      },
    }),
  ];
}

/** Two switches: `paused` makes everything wait, `enabled` decides whether what arrives is owed at all. */
function switchOperations(dependencies: DestinationActionDependencies): ApiOperation[] {
  const one = (
    verb: 'pause' | 'resume' | 'enable' | 'disable',
    to: { readonly paused: boolean } | { readonly enabled: boolean },
    summary: string,
  ) =>
    defineOperation({
      method: 'POST',
      path: `destinations/:name/${verb}`,
      role: 'editor',
      isWithin: NAMED_DESTINATION,
      summary,
      answer: switchSchema,
      problems: ['unknown_name'],
      run: (input) => switchTo(input, to, dependencies),
    });
  return [
    one(
      'pause',
      { paused: true },
      'Holds everything of a destination: what it is owed waits, and so does what arrives for it',
    ),
    one('resume', { paused: false }, 'Sends to a paused destination again, what has waited first'),
    one(
      'disable',
      { enabled: false },
      'Skips what arrives for a destination, which is never sent; what it is owed already waits',
    ),
    one(
      'enable',
      { enabled: true },
      'Owes a disabled destination what arrives again, and sends what has waited',
    ),
  ];
}

async function switchTo(
  { names, by }: Pick<OperationInput, 'names' | 'by'>,
  to: { readonly paused: boolean } | { readonly enabled: boolean },
  { settings, clock, types, statusOf }: DestinationActionDependencies,
): Promise<z.output<typeof switchSchema>> {
  const name = names['name'] ?? '';
  const now = await settings.change((now) => {
    const destination = { ...destinationByName(name, now), ...to };
    return diffRecords({ destinations: [destination] }, now, { by, clock, types });
  });
  const destination = destinationByName(name, now);
  const { enabled, paused = false } = destination;
  const { pending, oldestPendingAt, oldestKeptUntil } = await statusOf(destination);
  return {
    name,
    enabled,
    paused,
    pending,
    ...defined({ oldestPendingAt, oldestKeptUntil }),
  };
}

/** The request as it was sent, and the answer. */
function testResultView({ request, attempt }: TestAttempt, mask: HeaderMask) {
  const { startedAt, latencyMs, outcome, answer } = attempt;
  // The note of a drop stands in the place of an answer.
  const said = outcome.kind === 'dropped' ? outcome.note : answer;
  return {
    request: requestView(request, mask),
    startedAt: new Date(startedAt).toISOString(),
    latencyMs,
    outcome: outcome.kind,
    reason: outcome.reason,
    ...defined({ status: 'status' in outcome ? outcome.status : undefined, answer: said }),
  };
}
