import { queryOptions, useMutation } from '@tanstack/react-query';
import { type Answer, answer, api } from '../../api/client.ts';
import { REFRESH } from '../../api/queries.ts';
import { type RecordOf, type RecordPatch, useRefresh } from '../../api/records.ts';
import type { paths } from '../../api/schema.d.ts';

export type SourceRecord = RecordOf<'sources'>;
export type DiscardSample = Answer<'/api/v1/discards', 'get'>['data'][number];

/** Calls that a source has received in the last 24 hours. */
export interface SourceDay {
  /** Calls, one number for each half hour. */
  readonly received: readonly number[];
  /** Calls a second, now. */
  readonly rate: number;
}

/** Seconds of each point. */
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

type Creation = NonNullable<paths['/api/v1/sources']['post']['requestBody']>['content']['application/json'];

/** Creates a source; the server makes its write key. */
export function useCreateSource() {
  const refresh = useRefresh('sources');
  return useMutation({
    mutationFn: async (body: RecordPatch) =>
      await answer(api.POST('/api/v1/sources', { body: body as unknown as Creation })),
    onSuccess: refresh,
  });
}

const KEY_BYTES = 18;

/** A write key as the server makes them, from the browser's random source. */
export function newWriteKey(): string {
  const text = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(KEY_BYTES))));
  return `wk_${text.replaceAll('+', '-').replaceAll('/', '_')}`;
}

export type ComparedSources = Answer<'/api/v1/compare', 'get'>;

/** The ranges of time that comparisons are made of. */
export type SourceRange = '1h' | '1d' | '7d';

const HOURS: Readonly<Record<SourceRange, number>> = { '1h': 1, '1d': 24, '7d': 168 };

interface AskedComparison {
  readonly a: string;
  readonly b: string;
  readonly range: SourceRange;
  /** Rules that are switched off. */
  readonly without: readonly string[];
  /** When somebody asked: the same question later is another one. */
  readonly at: number;
}

/** Comparison of two sources. It is asked for once, and not again by itself. */
export const comparisonQuery = (asked: AskedComparison | undefined) =>
  queryOptions({
    queryKey: ['compare', asked],
    queryFn: async ({ signal }): Promise<ComparedSources> => {
      const { a, b, range, without, at } = asked!;
      const from = new Date(at - HOURS[range] * 3_600_000).toISOString();
      const query = { a, b, from, without: without.join(',') };
      return await answer(api.GET('/api/v1/compare', { params: { query }, signal }));
    },
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    retry: false,
  });
