import { infiniteQueryOptions, keepPreviousData, queryOptions, useMutation } from '@tanstack/react-query';
import { type Answer, ApiError, answer, api } from '../../api/client.ts';
import type { IdParameters } from '../../api/ids.ts';
import { allOf, REFRESH } from '../../api/queries.ts';
import { type RecordOf, type RecordPatch, useRefresh } from '../../api/records.ts';
import type { paths } from '../../api/schema.d.ts';
import type { SeenEvent } from './builder/known-events.ts';
import type { Foreseen } from './joined-ids.ts';

export type Profile = Answer<'/api/v1/profiles/{userId}', 'get'>;
/** An audience or a computed trait. */
export type Computation = RecordOf<'audiences'>;
export type Member = Answer<'/api/v1/audiences/{name}/members', 'get'>['data'][number];
export type Preview = Answer<'/api/v1/audiences/preview', 'post'>;
export type RegulationType = Answer<'/api/v1/regulations/{id}', 'get'>['type'];
export type StoredEvent = Extract<
  Answer<'/api/v1/events', 'get'>['data'][number],
  { readonly verdict: 'accepted' }
>;

export type Kind = 'audiences' | 'traits';

const LISTS = { audiences: '/api/v1/audiences', traits: '/api/v1/traits' } as const;
const MEMBERS = {
  audiences: '/api/v1/audiences/{name}/members',
  traits: '/api/v1/traits/{name}/members',
} as const;
const PREVIEWS = { audiences: '/api/v1/audiences/preview', traits: '/api/v1/traits/preview' } as const;

/** All audiences, or all computed traits. */
export const computationsQuery = (kind: Kind) =>
  queryOptions({
    queryKey: [kind],
    queryFn: async ({ signal }): Promise<Computation[]> =>
      await allOf((query) => answer(api.GET(LISTS[kind], { params: { query }, signal }))),
    refetchInterval: 2 * REFRESH,
  });

const MEMBERS_PAGE = 50;

export const membersQuery = (kind: Kind, name: string) =>
  infiniteQueryOptions({
    queryKey: [kind, name, 'members'],
    queryFn: async ({ signal, pageParam }) =>
      await answer(
        api.GET(MEMBERS[kind], {
          params: { path: { name }, query: pageOf(pageParam, MEMBERS_PAGE) },
          signal,
        }),
      ),
    initialPageParam: '',
    getNextPageParam: ({ next }) => next,
    refetchInterval: 2 * REFRESH,
  });

function pageOf(cursor: string, limit: number): { readonly limit: number; readonly cursor?: string } {
  return cursor === '' ? { limit } : { limit, cursor };
}

export interface PreviewRequest {
  /** The definition as text or JSON; when empty, nothing is computed. */
  readonly definition: string | Readonly<Record<string, unknown>>;
  /** Name of the stored definition that it would replace. */
  readonly name?: string;
  readonly includeAnonymous?: boolean;
}

/**
 * Computes a definition over the stored events; nothing is kept or sent. The last result stays until the next
 * is there.
 */
export const previewQuery = (kind: Kind, request: PreviewRequest) =>
  queryOptions({
    queryKey: [kind, 'preview', request],
    // The server computes one at a time, so typing on ends the question before.
    queryFn: async ({ signal }): Promise<Preview> =>
      await answer(api.POST(PREVIEWS[kind], { body: request, signal })),
    enabled: request.definition !== '',
    retry: (_, error) => error instanceof ApiError && error.code === 'preview_running',
    retryDelay: REFRESH,
    placeholderData: keepPreviousData,
    // While profiles are behind, the number is one so far.
    refetchInterval: ({ state }) => (state.data?.complete === false ? REFRESH : false),
  });

/** Number of the newest events that are searched for names. */
const LOOKED_AT = 100;

/** Events that came lately: their names, properties and traits are suggested. */
export const seenEventsQuery = queryOptions({
  queryKey: ['events', 'seen'],
  queryFn: async ({ signal }): Promise<readonly SeenEvent[]> => {
    const query = { limit: LOOKED_AT };
    const { data } = await answer(api.GET('/api/v1/events', { params: { query }, signal }));
    return data.flatMap((entry) =>
      entry.verdict === 'accepted' ? (entry.event as unknown as SeenEvent) : [],
    );
  },
  staleTime: 60_000,
});

type Creation = NonNullable<paths['/api/v1/audiences']['post']['requestBody']>['content']['application/json'];

export function useCreateComputation(kind: Kind) {
  const refresh = useRefresh(kind);
  return useMutation({
    mutationFn: async (body: RecordPatch) =>
      await answer(api.POST(LISTS[kind], { body: body as unknown as Creation })),
    onSuccess: refresh,
  });
}

/** By a userId, also a former one, or by an anonymous id. */
export const profileQuery = (id: IdParameters) =>
  queryOptions({
    queryKey: ['profiles', id],
    queryFn: async ({ signal }): Promise<Profile> =>
      await answer(api.GET('/api/v1/profiles', { params: { query: id }, signal })),
    enabled: Object.keys(id).length > 0,
    retry: false,
    refetchInterval: 2 * REFRESH,
  });

const EVENTS_PAGE = 20;

/** Events of a user, by all its ids, the newest first. */
export const userEventsQuery = (id: IdParameters) =>
  infiniteQueryOptions({
    queryKey: ['events', id],
    queryFn: async ({ signal, pageParam }) => {
      const query = { ...id, ...pageOf(pageParam, EVENTS_PAGE) };
      return await answer(api.GET('/api/v1/events', { params: { query }, signal }));
    },
    initialPageParam: '',
    getNextPageParam: ({ next }) => next,
  });

const REGULATIONS_PAGE = 50;

export const regulationsQuery = infiniteQueryOptions({
  queryKey: ['regulations'],
  queryFn: async ({ signal, pageParam }) =>
    await answer(
      api.GET('/api/v1/regulations', { params: { query: pageOf(pageParam, REGULATIONS_PAGE) }, signal }),
    ),
  initialPageParam: '',
  getNextPageParam: ({ next }) => next,
  refetchInterval: 2 * REFRESH,
});

export const regulationQuery = (id: string) =>
  queryOptions({
    queryKey: ['regulations', id],
    queryFn: async ({ signal }) =>
      await answer(api.GET('/api/v1/regulations/{id}', { params: { path: { id } }, signal })),
    refetchInterval: ({ state }) => (state.data?.finishedAt === undefined ? REFRESH : false),
  });

export const suppressionsQuery = infiniteQueryOptions({
  queryKey: ['suppressions'],
  queryFn: async ({ signal, pageParam }) =>
    await answer(
      api.GET('/api/v1/suppressions', { params: { query: pageOf(pageParam, REGULATIONS_PAGE) }, signal }),
    ),
  initialPageParam: '',
  getNextPageParam: ({ next }) => next,
});

interface RegulationBody {
  readonly type: RegulationType;
  readonly subjectIds?: string[];
  readonly anonymousIds?: string[];
  readonly confirm?: boolean;
}

/** Deletes or suppresses users, or ends their suppression. */
export function useRegulate() {
  const refresh = useRefresh('regulations', 'suppressions', 'profiles', 'events');
  return useMutation({
    mutationFn: async (body: RegulationBody) =>
      (await answer(api.POST('/api/v1/regulations', { body }))) as { readonly id: string },
    onSuccess: refresh,
  });
}

/** Dry run of a regulation: the users that it would affect, with what joined each id. */
export function useForesee() {
  return useMutation({
    mutationFn: async (body: RegulationBody) =>
      (await answer(api.POST('/api/v1/regulations', { body: { ...body, dryRun: true } }))) as Foreseen,
  });
}

/** The users of a regulation, until it ends. */
export const subjectsQuery = (id: string) =>
  queryOptions({
    queryKey: ['regulations', id, 'subjects'],
    queryFn: async ({ signal }) =>
      await answer(api.GET('/api/v1/regulations/{id}/subjects', { params: { path: { id } }, signal })),
    refetchInterval: REFRESH,
  });
