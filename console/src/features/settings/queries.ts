import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { type Answer, answer, api, type Tagged, taggedAnswer } from '../../api/client.ts';
import { allOf } from '../../api/queries.ts';
import { type RecordOf, type RecordPatch, useRefresh } from '../../api/records.ts';
import type { paths } from '../../api/schema.d.ts';
import { serverNow } from '../../api/server-time.ts';
import { type Numbers, numbersOf } from '../overview/queries.ts';
import type { RecordKind } from './record-kinds.ts';

export type Token = Answer<'/api/v1/tokens', 'get'>['data'][number];
/** A token that is to be made. */
export interface TokenRequest extends Pick<Token, 'name' | 'role'> {
  /** ISO 8601; absent: it has no end. */
  readonly expiresAt?: string;
  /** Sources and destinations of the token. Both absent: all. */
  readonly sources?: string[];
  readonly destinations?: string[];
  /** False: it does not show what events hold. */
  readonly bodies?: boolean;
}

export type NewToken = Answer<'/api/v1/tokens', 'post'>;
export type Alert = RecordOf<'alerts'>;
type AlertBody = NonNullable<paths['/api/v1/alerts']['post']['requestBody']>['content']['application/json'];
export type AuditEntry = Answer<'/api/v1/audit', 'get'>['data'][number];
export type Plan = Answer<'/api/v1/config', 'put'>;

export const tokensQuery = queryOptions({
  queryKey: ['tokens'],
  queryFn: async ({ signal }): Promise<Token[]> =>
    await allOf((query) => answer(api.GET('/api/v1/tokens', { params: { query }, signal }))),
});

export function useCreateToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (body: TokenRequest): Promise<NewToken> =>
      await answer(api.POST('/api/v1/tokens', { body })),
    onSuccess: () => client.invalidateQueries({ queryKey: ['tokens'] }),
  });
}

export function useRevokeToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (name: string) =>
      await answer(api.DELETE('/api/v1/tokens/{name}', { params: { path: { name } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: ['tokens'] }),
  });
}

export const alertsQuery = queryOptions({
  queryKey: ['alerts'],
  queryFn: async ({ signal }): Promise<Alert[]> =>
    await allOf((query) => answer(api.GET('/api/v1/alerts', { params: { query }, signal }))),
  refetchInterval: 5_000,
});

export function useCreateAlert() {
  const refresh = useRefresh('alerts');
  return useMutation({
    mutationFn: async (body: RecordPatch) =>
      await answer(api.POST('/api/v1/alerts', { body: body as unknown as AlertBody })),
    onSuccess: refresh,
  });
}

export function useTestAlert(name: string) {
  return useMutation({
    mutationFn: async () =>
      await answer(api.POST('/api/v1/alerts/{name}/test', { params: { path: { name } }, body: {} })),
  });
}

export interface AuditFilter {
  readonly kind?: RecordKind;
  readonly name?: string;
}

const AUDIT_PAGE = 50;

/** Changes of records, the newest first. */
export const auditQuery = (filter: AuditFilter) =>
  infiniteQueryOptions({
    queryKey: ['audit', filter],
    queryFn: async ({ signal, pageParam }) =>
      await answer(
        api.GET('/api/v1/audit', {
          params: {
            query: { ...filter, limit: AUDIT_PAGE, ...(pageParam === '' ? {} : { cursor: pageParam }) },
          },
          signal,
        }),
      ),
    initialPageParam: '',
    getNextPageParam: ({ next }) => next,
  });

type Document = NonNullable<paths['/api/v1/config']['put']['requestBody']>['content']['application/json'];

interface PlanRequest {
  readonly document: Readonly<Record<string, unknown>>;
  /** Also removes the records that the document does not name. */
  readonly prune: boolean;
  /** Only says what would change. */
  readonly dryRun: boolean;
  /** Tag of the plan to apply. */
  readonly tag?: string;
}

export function usePlan() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ document, prune, dryRun, tag }: PlanRequest): Promise<Tagged<Plan>> =>
      await taggedAnswer(
        api.PUT('/api/v1/config', {
          params: {
            query: { dryRun: flag(dryRun), prune: flag(prune), confirm: flag(!dryRun) },
            ...(tag === undefined ? {} : { header: { 'If-Match': tag } }),
          },
          body: document as unknown as Document,
        }),
      ),
    onSuccess: async (_, { dryRun }) => {
      if (!dryRun) await client.invalidateQueries();
    },
  });
}

function flag(value: boolean): 'true' | 'false' {
  return value ? 'true' : 'false';
}

const LATENCIES = 'commitP50,commitP99,acceptanceP50,acceptanceP99,deliveryP50,deliveryP99';

/** Durations of commits, calls and deliveries in the last hour, in milliseconds, by the minute. */
export const latenciesQuery = queryOptions({
  queryKey: ['timeline', 'latencies'],
  queryFn: async ({ signal }): Promise<Numbers> => {
    const query = { range: '1h', step: 60, series: LATENCIES };
    return numbersOf(await answer(api.GET('/api/v1/timeline', { params: { query }, signal })), serverNow());
  },
  refetchInterval: 10_000,
});
