import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { type Answer, answer, api } from '../../api/client.ts';
import { fitsPath, type IdParameters } from '../../api/ids.ts';

/**
 * One use of a messageId by a source: an accepted event, a discarded call, or an event that cannot be read
 * any more.
 */
export type TraceEntry = Answer<'/api/v1/events/{messageId}', 'get'>['data'][number];
export type AcceptedEvent = Extract<TraceEntry, { verdict: 'accepted' }>;
export type DeliveryTrace = AcceptedEvent['deliveries'][number];
export type Attempt = DeliveryTrace['attempts'][number];

/** Milliseconds between two requests while an event is not finished. */
const SOON = 1_000;

/** Everything that is known of a messageId, the latest use first. An unknown id is an `ApiError` 404. */
export function traceQuery(messageId: string, source?: string) {
  return queryOptions({
    queryKey: ['events', messageId, source ?? ''],
    queryFn: async ({ signal }) => {
      const query = source === undefined ? {} : { source };
      if (fitsPath(messageId)) {
        const params = { path: { messageId }, query };
        return (await answer(api.GET('/api/v1/events/{messageId}', { params, signal }))).data;
      }
      const params = { query: { ...query, messageId } };
      return (await answer(api.GET('/api/v1/events', { params, signal }))).data;
    },
    refetchInterval: ({ state }) => (state.data?.some(isUnsettled) ? SOON : false),
  });
}

function isUnsettled(entry: TraceEntry): boolean {
  return (
    entry.verdict !== 'discarded' &&
    entry.deliveries.some(({ state }) => state === 'pending' || state === 'retrying')
  );
}

export type SentRequest = Answer<'/api/v1/deliveries/{id}/requests', 'get'>['data'][number];

/**
 * The requests of a delivery as they were made, as far as the settings are still the same, with signatures of
 * this moment.
 */
export function deliveryRequestsQuery(id: string) {
  return queryOptions({
    queryKey: ['events', 'requests', id],
    queryFn: async ({ signal }) =>
      await answer(api.GET('/api/v1/deliveries/{id}/requests', { params: { path: { id } }, signal })),
    retry: false,
  });
}

export interface EventFilter extends IdParameters {
  readonly source?: string;
  readonly type?: string;
  readonly messageId?: string;
  readonly event?: string;
  /** ISO 8601. */
  readonly from?: string;
  readonly to?: string;
}

/** Stored events, the newest first. A page looks for about a second, and may be empty with more to come. */
export function eventSearchQuery(filter: EventFilter, limit = 50) {
  return infiniteQueryOptions({
    queryKey: ['events', 'search', filter, limit],
    queryFn: async ({ signal, pageParam }) => {
      const query = { ...filter, limit, ...(pageParam === '' ? {} : { cursor: pageParam }) };
      // The types know the call types; the address may have any text, and the server says what is wrong with
      // it.
      return await answer(api.GET('/api/v1/events', { params: { query: query as object }, signal }));
    },
    initialPageParam: '',
    getNextPageParam: ({ next }) => next ?? undefined,
  });
}
