import * as z from 'zod';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import type {
  DeadLetterSearch,
  DeliveryQuery,
  DeliverySummary,
  Page,
  PageRequest,
  PageStart,
} from '../../reporting/contract.ts';
import { textInQuery } from '../ids.ts';
import { type ApiOperation, defineOperation, type Shape } from '../operation.ts';
import {
  decodeCursor,
  encodeCursor,
  formatPageStart,
  pageQuery,
  parsePageStart,
  timeParameter,
} from '../pagination.ts';
import { Problem } from '../problem.ts';
import { ASKED_DESTINATION } from '../token-limits.ts';
import { unknownName } from '../unknown-name.ts';
import { eventFilterFields, searchPageSchema, searchPageView, sourceFilter } from './events.ts';
import { attemptSchema, deliveryState } from './reports.ts';
import { namingFields } from './tail.ts';

export interface DeliveryOperationDependencies {
  readonly settings: { now(): SettingsSnapshot };
  readonly search: {
    deliveries(query: DeliveryQuery, page: PageRequest<PageStart>): Promise<Page<DeliverySummary>>;
    /** `from` and `to` select by the time at which a delivery was given up. */
    dead(query: DeadLetterSearch, page: PageRequest<string>): Promise<Page<DeliverySummary, string>>;
  };
}

const deliveryQuery = z.object({
  destination: textInQuery.exactOptional().meta({ description: 'Name of the destination.' }),
  state: deliveryState.exactOptional(),
  reason: textInQuery.min(1).exactOptional().meta({
    description:
      'Why it is dead or dropped (`state=dead`, `state=dropped`), or what its last request came to (`state=retrying`); such as `status_410`.',
  }),
  ...eventFilterFields,
  from: timeParameter.exactOptional().meta({
    description:
      'The event arrived at this time or later; with `state=dead` or `dropped`: given up at this time or later.',
  }),
  to: timeParameter.exactOptional().meta({
    description:
      'The event arrived before this time; with `state=dead` or `dropped`: given up before this time.',
  }),
  ...pageQuery,
});

const deliverySchema = z.object({
  id: z.string().meta({ description: 'As `redeliveries` takes it.' }),
  destination: z.string(),
  state: deliveryState,
  reason: z.string().exactOptional(),
  note: z.string().exactOptional().meta({ description: 'What its type says about a dropped one.' }),
  diedAt: z.string().exactOptional(),
  droppedAt: z.string().exactOptional(),
  nextAttemptAt: z.string().exactOptional(),
  endpoint: z.string().exactOptional(),
  messageId: z.string().exactOptional(),
  type: z.string().exactOptional(),
  ...namingFields,
  source: z.string().exactOptional(),
  receivedAt: z.string().exactOptional(),
  attempts: z.array(attemptSchema),
} satisfies Shape<DeliverySummary>);

/** spec/contract.md, "Operations on deliveries". */
export function deliveryOperations({ settings, search }: DeliveryOperationDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'deliveries',
      role: 'viewer',
      summary:
        'Finds deliveries, those of the newest events first, dead and dropped ones by when they were given up. ' +
        'Looks for about a second: a page may be short, or empty, and go on with `next`',
      query: deliveryQuery,
      answer: searchPageSchema(deliverySchema),
      problems: ['unknown_name'],
      isWithin: ASKED_DESTINATION,
      run: async ({ query: { limit, cursor, ...asked } }) => {
        refuseReasonAlone(asked);
        const { source, destination, ...rest } = asked;
        const now = settings.now();
        const wish = { ...rest, ...sourceFilter(source, now), ...destinationFilter(destination, now) };
        const list = { list: 'deliveries', ...asked };
        const place = decodeCursor(cursor, list);
        const { state } = asked;
        if (state === 'dead' || state === 'dropped') {
          const from = place === undefined ? {} : { from: place };
          return searchPageView(await search.dead({ ...wish, state }, { limit, ...from }), (next) =>
            encodeCursor(next, list),
          );
        }
        const page = await search.deliveries(wish, { limit, ...parsePageStart(place) });
        return searchPageView(page, (next) => encodeCursor(formatPageStart(next), list));
      },
    }),
  ];
}

const WITH_REASON: ReadonlySet<string | undefined> = new Set(['dead', 'dropped', 'retrying']);

/**
 * A reason needs a state: pending and delivered deliveries have none, and the others mean different reasons.
 */
function refuseReasonAlone({ reason, state }: { readonly reason?: string; readonly state?: string }): void {
  if (reason === undefined || WITH_REASON.has(state)) return;
  const message = 'needs state=dead, state=dropped or state=retrying beside it';
  throw new Problem('invalid_parameters', { errors: [{ path: 'query.reason', message }] });
}

/**
 * The id of a destination by its name. A removed destination counts too, because its deliveries are still
 * stored.
 */
function destinationFilter(
  name: string | undefined,
  { destinations, gone }: SettingsSnapshot,
): { readonly destination?: number } {
  if (name === undefined) return {};
  const destination = [...destinations, ...gone.destinations].find((one) => one.name === name);
  if (destination !== undefined) return { destination: destination.id };
  throw unknownName(name, 'destination', destinations);
}
