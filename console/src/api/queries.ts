import { queryOptions } from '@tanstack/react-query';
import { type Answer, answer, api } from './client.ts';

/**
 * Queries that several pages share. A query key begins with the operation's path below `/api/v1`, so that
 * `invalidateQueries({ queryKey: ['destinations'] })` reaches every list and every record of it.
 */

export type Status = Answer<'/api/v1/status', 'get'>;
export type Source = Answer<'/api/v1/sources', 'get'>['data'][number];
export type Destination = Answer<'/api/v1/destinations', 'get'>['data'][number];

/** Milliseconds between two reads of numbers on the screen. */
export const REFRESH = 2_000;

export const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: async ({ signal }): Promise<Status> => await answer(api.GET('/api/v1/status', { signal })),
  refetchInterval: REFRESH,
});

/** Milliseconds between two reads of lists that somebody else may change. */
const SELDOM = 15_000;

/** Entries of a page at most: the largest page there is. */
const PAGE = 500;

interface ListPage<Entry> {
  readonly data: readonly Entry[];
  readonly next: string | null;
}

/** Every entry of a list, page by page. */
export async function allOf<Entry>(
  page: (query: { limit: number; cursor?: string }) => Promise<ListPage<Entry>>,
): Promise<Entry[]> {
  const all: Entry[] = [];
  let cursor: string | null = null;
  do {
    const { data, next }: ListPage<Entry> = await page(
      cursor === null ? { limit: PAGE } : { limit: PAGE, cursor },
    );
    all.push(...data);
    cursor = next;
  } while (cursor !== null);
  return all;
}

/** A write key of a source; undefined where it has none, and for a viewer, who is shown only how it ends. */
export function keyOf(source: Pick<Source, 'writeKeys'> | undefined): string | undefined {
  return source?.writeKeys.find((key) => !isMaskedKey(key));
}

/** True for a masked write key, of which a viewer sees only the end. */
export const isMaskedKey = (key: string): boolean => key.startsWith('…');

/** All sources by name. */
export const sourcesQuery = queryOptions({
  queryKey: ['sources'],
  queryFn: async ({ signal }): Promise<Source[]> =>
    await allOf((query) => answer(api.GET('/api/v1/sources', { params: { query }, signal }))),
  refetchInterval: SELDOM,
});

/** All destinations by name. */
export const destinationsQuery = queryOptions({
  queryKey: ['destinations'],
  queryFn: async ({ signal }): Promise<Destination[]> =>
    await allOf((query) => answer(api.GET('/api/v1/destinations', { params: { query }, signal }))),
  refetchInterval: SELDOM,
});

/** All records as a configuration file has them. */
export const configQuery = queryOptions({
  queryKey: ['config'],
  queryFn: async ({ signal }) => await answer(api.GET('/api/v1/config', { signal })),
});

/**
 * Names of the records that the configuration file of the last start has. It stays what it is until the
 * server is started again.
 */
export const fileQuery = queryOptions({
  queryKey: ['config', 'file'],
  queryFn: async ({ signal }) => await answer(api.GET('/api/v1/config/file', { signal })),
  staleTime: 60_000,
});
