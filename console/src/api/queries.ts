import { queryOptions } from '@tanstack/react-query';
import { type Answer, answer, api } from './client.ts';

/**
 * Queries that several pages share. A query key begins with the operation's path below `/api/v1`, so that `invalidateQueries({
 * queryKey: ['destinations'] })` reaches every list and every record of it.
 */

export type Status = Answer<'/api/v1/status', 'get'>;
export type Source = Answer<'/api/v1/sources', 'get'>['data'][number];
export type Destination = Answer<'/api/v1/destinations', 'get'>['data'][number];

/** How often numbers on the screen are read again, in milliseconds. */
export const REFRESH = 2_000;

export const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: async ({ signal }): Promise<Status> => await answer(api.GET('/api/v1/status', { signal })),
  refetchInterval: REFRESH,
});

/** Entries of a page at most: the largest page there is. */
const PAGE = 500;

/** Up to 500 sources by name, which is all of them in any installation we know. */
export const sourcesQuery = queryOptions({
  queryKey: ['sources'],
  queryFn: async ({ signal }): Promise<Source[]> =>
    (await answer(api.GET('/api/v1/sources', { params: { query: { limit: PAGE } }, signal }))).data,
});

/** Up to 500 destinations by name. */
export const destinationsQuery = queryOptions({
  queryKey: ['destinations'],
  queryFn: async ({ signal }): Promise<Destination[]> =>
    (await answer(api.GET('/api/v1/destinations', { params: { query: { limit: PAGE } }, signal }))).data,
});

/** All records as a configuration file has them. */
export const configQuery = queryOptions({
  queryKey: ['config'],
  queryFn: async ({ signal }) => await answer(api.GET('/api/v1/config', { signal })),
});

/** Names of the records that the configuration file of the last start has. It stays what it is until the server is started again. */
export const fileQuery = queryOptions({
  queryKey: ['config', 'file'],
  queryFn: async ({ signal }) => await answer(api.GET('/api/v1/config/file', { signal })),
  staleTime: 60_000,
});
