import { infiniteQueryOptions, queryOptions, useMutation } from '@tanstack/react-query';
import { type Answer, answer, api } from '../../api/client.ts';
import { allOf, REFRESH } from '../../api/queries.ts';
import { type RecordPatch, useRefresh } from '../../api/records.ts';
import type { paths } from '../../api/schema.d.ts';

export type DestinationStatus = Answer<'/api/v1/destinations/{name}/status', 'get'>;
export type Delivery = Answer<'/api/v1/deliveries', 'get'>['data'][number];
export type Replay = Answer<'/api/v1/replays/{id}', 'get'>;
export type ReplayPreview = Pick<Replay, 'count' | 'deliveries' | 'bytes' | 'exact' | 'expectedSeconds'>;
export type TestResult = Answer<'/api/v1/destinations/{name}/test', 'post'>['data'][number];

export const DELIVERY_STATES = ['pending', 'retrying', 'delivered', 'dead', 'dropped'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

export const destinationStatusQuery = (name: string) =>
  queryOptions({
    queryKey: ['destinations', name, 'status'],
    queryFn: async ({ signal }) =>
      await answer(api.GET('/api/v1/destinations/{name}/status', { params: { path: { name } }, signal })),
    refetchInterval: REFRESH,
  });

export interface DeliveryFilter {
  readonly destination: string;
  readonly state?: DeliveryState;
  readonly reason?: string;
}

const DELIVERIES_PAGE = 50;

/** Deliveries of the newest events first, dead and dropped ones by when they were given up. */
export const deliveriesQuery = (filter: DeliveryFilter, limit = DELIVERIES_PAGE) =>
  infiniteQueryOptions({
    queryKey: ['deliveries', filter, limit],
    queryFn: async ({ signal, pageParam }) =>
      await answer(
        api.GET('/api/v1/deliveries', {
          params: {
            query: { ...filter, limit, ...(pageParam === '' ? {} : { cursor: pageParam }) },
          },
          signal,
        }),
      ),
    initialPageParam: '',
    getNextPageParam: ({ next }) => next,
    // Later pages are looked at, and not watched.
    refetchInterval: ({ state }) => (state.data?.pages.length === 1 ? 2 * REFRESH : false),
  });

/** All replays and redeliveries that are still listed; those of one destination are picked from them. */
export const replaysQuery = queryOptions({
  queryKey: ['replays'],
  queryFn: async ({ signal }) =>
    await allOf((query) => answer(api.GET('/api/v1/replays', { params: { query }, signal }))),
  refetchInterval: REFRESH,
});

export type Switch = 'pause' | 'resume' | 'enable' | 'disable';

const SWITCHES = {
  pause: '/api/v1/destinations/{name}/pause',
  resume: '/api/v1/destinations/{name}/resume',
  enable: '/api/v1/destinations/{name}/enable',
  disable: '/api/v1/destinations/{name}/disable',
} as const;

/** Pauses, resumes, enables or disables a destination. */
export function useSwitch(name: string) {
  const refresh = useRefresh('destinations');
  return useMutation({
    mutationFn: async (to: Switch) => await answer(api.POST(SWITCHES[to], { params: { path: { name } } })),
    onSettled: refresh,
  });
}

type Creation = NonNullable<
  paths['/api/v1/destinations']['post']['requestBody']
>['content']['application/json'];

export function useCreateDestination() {
  const refresh = useRefresh('destinations');
  return useMutation({
    mutationFn: async (body: RecordPatch) =>
      await answer(api.POST('/api/v1/destinations', { body: body as unknown as Creation })),
    onSuccess: refresh,
  });
}

export function useTestDestination(name: string) {
  return useMutation({
    mutationFn: async (type: CallTypeName) =>
      (
        await answer(
          api.POST('/api/v1/destinations/{name}/test', { params: { path: { name } }, body: { type } }),
        )
      ).data,
  });
}

type CallTypeName = 'identify' | 'track' | 'page' | 'screen' | 'group' | 'alias';

export interface RedeliveryRequest {
  readonly destination: string;
  readonly ids?: string[];
  /** Default: dead ones. */
  readonly state?: 'dead' | 'dropped';
  readonly reason?: string;
}

/** Counts what would be redelivered, and changes nothing. */
export const redeliveryPreviewQuery = (request: RedeliveryRequest) =>
  queryOptions({
    queryKey: ['redeliveries', request],
    queryFn: async () =>
      await answer(api.POST('/api/v1/redeliveries', { body: { ...request, dryRun: true } })),
    gcTime: 0,
  });

export function useRedeliver() {
  const refresh = useRefresh('destinations');
  return useMutation({
    mutationFn: async (request: RedeliveryRequest) =>
      await answer(api.POST('/api/v1/redeliveries', { body: request })),
    onSuccess: refresh,
  });
}

export interface ReplayRequest {
  readonly destination: string;
  readonly from: string;
  readonly to: string;
  readonly types?: CallTypeName[];
  readonly rate?: number;
}

/** Counts what a replay would send, and changes nothing. */
export const replayPreviewQuery = (request: ReplayRequest) =>
  queryOptions({
    queryKey: ['replays', 'preview', request],
    queryFn: async (): Promise<ReplayPreview> =>
      await answer(api.POST('/api/v1/replays', { body: { ...request, dryRun: true } })),
    gcTime: 0,
    retry: false,
  });

export function useReplay() {
  const refresh = useRefresh('destinations');
  return useMutation({
    mutationFn: async (request: ReplayRequest) =>
      await answer(api.POST('/api/v1/replays', { body: request })),
    onSuccess: refresh,
  });
}

export function useCancelReplay() {
  const refresh = useRefresh('destinations');
  return useMutation({
    mutationFn: async (id: string) =>
      await answer(api.DELETE('/api/v1/replays/{id}', { params: { path: { id } } })),
    onSettled: refresh,
  });
}
