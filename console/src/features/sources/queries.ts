import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { type Answer, answer, api } from '../../api/client.ts';
import { REFRESH } from '../../api/queries.ts';
import type { paths } from '../../api/schema.d.ts';

export type SourceRecord = Answer<'/api/v1/sources/{name}', 'get'>;
export type DiscardSample = Answer<'/api/v1/discards', 'get'>['data'][number];

export const sourceQuery = (name: string) =>
  queryOptions({
    queryKey: ['sources', name],
    queryFn: async ({ signal }) =>
      await answer(api.GET('/api/v1/sources/{name}', { params: { path: { name } }, signal })),
  });

/** Calls that a source has received in the last 24 hours. */
export interface SourceDay {
  /** Calls, one number for each half hour. */
  readonly received: readonly number[];
  /** Calls a second, now. */
  readonly rate: number;
}

/** Seconds of a point. */
const HALF_HOUR = 1800;

/** The last 24 hours of every source, by name. */
export const sourceDaysQuery = queryOptions({
  queryKey: ['timeline', 'sources'],
  queryFn: async ({ signal }): Promise<ReadonlyMap<string, SourceDay>> => {
    const query = { range: '24h', step: HALF_HOUR, series: 'received', by: 'source' } as const;
    const { groups } = await answer(api.GET('/api/v1/timeline', { params: { query }, signal }));
    return new Map(
      groups.map(({ source = '', series, now }) => [
        source,
        {
          received: (series['received'] ?? []).map((count) => count ?? 0),
          rate: now['received'] ?? 0,
        },
      ]),
    );
  },
  refetchInterval: 10_000,
});

/** The last discarded calls of every source and reason, and of no source. */
export const discardsQuery = queryOptions({
  queryKey: ['discards'],
  queryFn: async ({ signal }) => (await answer(api.GET('/api/v1/discards', { signal }))).data,
  refetchInterval: 2 * REFRESH,
});

function useRefresh(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    const keys = ['sources', 'status', 'audit', 'config'];
    await Promise.all(keys.map((key) => client.invalidateQueries({ queryKey: [key] })));
  };
}

/** The body is checked by the server, which names each mistake with its path. */
type RecordBody = Readonly<Record<string, unknown>>;
type Creation = NonNullable<paths['/api/v1/sources']['post']['requestBody']>['content']['application/json'];

/** Creates a source; the server makes its write key. */
export function useCreateSource() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: async (body: RecordBody) =>
      await answer(api.POST('/api/v1/sources', { body: body as unknown as Creation })),
    onSuccess: refresh,
  });
}

export function useChangeSource(name: string) {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: async (body: RecordBody) =>
      await answer(api.PATCH('/api/v1/sources/{name}', { params: { path: { name } }, body })),
    onSuccess: refresh,
  });
}

export function useRemoveSource() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: async (name: string) =>
      await answer(api.DELETE('/api/v1/sources/{name}', { params: { path: { name } } })),
    onSuccess: refresh,
  });
}

const KEY_BYTES = 18;

/** A write key as the server makes them, from the browser's random source. */
export function newWriteKey(): string {
  const text = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(KEY_BYTES))));
  return `wk_${text.replaceAll('+', '-').replaceAll('/', '_')}`;
}
