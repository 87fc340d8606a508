import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { type Answer, ApiError, answer, api, type Tagged, taggedAnswer } from './client.ts';
import { fileQuery, REFRESH } from './queries.ts';

/** The address of one record in each list of records that the console changes. */
const RECORDS = {
  sources: '/api/v1/sources/{name}',
  destinations: '/api/v1/destinations/{name}',
  audiences: '/api/v1/audiences/{name}',
  traits: '/api/v1/traits/{name}',
  alerts: '/api/v1/alerts/{name}',
} as const;

export type RecordList = keyof typeof RECORDS;

/**
 * The address as one type for all lists: the client's types do not know which address belongs to a list that
 * is a variable.
 */
const addressOf = (list: RecordList): (typeof RECORDS)[RecordList] => RECORDS[list];

export type RecordOf<List extends RecordList> = Answer<(typeof RECORDS)[List], 'get'>;

/** A record with its ETag. It is read again and again, because somebody else may change it meanwhile. */
export const recordQuery = <List extends RecordList>(list: List, name: string) =>
  queryOptions({
    queryKey: [list, name],
    queryFn: async ({ signal }): Promise<Tagged<RecordOf<List>>> =>
      (await taggedAnswer(
        api.GET(addressOf(list), { params: { path: { name } }, signal }),
      )) as unknown as Tagged<RecordOf<List>>,
    refetchInterval: REFRESH,
  });

/** Query keys of everything else that may show a change of a record. */
const AFFECTED = ['status', 'audit', 'config', 'deliveries', 'replays'] as const;

/** Reloads these lists and everything else that shows their records. */
export function useRefresh(...lists: readonly string[]): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    const keys = [...lists, ...AFFECTED];
    await Promise.all(keys.map((key) => client.invalidateQueries({ queryKey: [key] })));
  };
}

/**
 * The changed fields only, as a JSON merge patch. The server checks it, and names each mistake with its path.
 */
export type RecordPatch = Readonly<Record<string, unknown>>;

export interface RecordChanges<Stored> {
  /** Changes the record that was read with this tag, and resolves to what it is then. */
  change(tag: string, patch: RecordPatch): Promise<Tagged<Stored>>;
  /**
   * Changes the record whatever it has become meanwhile: for a switch, and for one entry of a list that
   * others may have added to. Calls `patchOf` again when somebody else made a change in between.
   */
  update(patchOf: (record: Stored) => RecordPatch): Promise<Tagged<Stored>>;
  /** Removes the record that was read with this tag. */
  remove(tag: string): Promise<void>;
}

/**
 * Changes of one record, each with the tag that it was read with. `change` and `remove` reject with status
 * 412 where somebody else has changed it meanwhile; the record is read again then.
 */
export function useRecordChanges<List extends RecordList>(
  list: List,
  name: string,
): RecordChanges<RecordOf<List>> {
  const client = useQueryClient();
  const refresh = useRefresh(list);
  const refreshed = async <Result>(request: Promise<Result>): Promise<Result> => {
    try {
      return await request;
    } catch (error) {
      if (isOvertaken(error)) await refresh();
      throw error;
    }
  };
  const change = async (tag: string, patch: RecordPatch): Promise<Tagged<RecordOf<List>>> => {
    const params = { path: { name }, header: { 'If-Match': tag } };
    const request = taggedAnswer(api.PATCH(addressOf(list), { params, body: patch }));
    const changed = (await refreshed(request)) as unknown as Tagged<RecordOf<List>>;
    // An older answer that is still on its way must not replace it.
    await client.cancelQueries({ queryKey: [list, name] });
    client.setQueryData(recordQuery(list, name).queryKey, changed);
    void refresh();
    return changed;
  };
  return {
    change,
    update: async (patchOf) => {
      for (;;) {
        const { tag, record } = await client.fetchQuery({ ...recordQuery(list, name), staleTime: 0 });
        try {
          return await change(tag, patchOf(record));
        } catch (error) {
          if (!isOvertaken(error)) throw error;
        }
      }
    },
    remove: async (tag) => {
      const params = { path: { name }, header: { 'If-Match': tag } };
      // The dialog has said how much the destination is owed, and its name was typed, so nothing more is
      // asked.
      const query = list === 'destinations' ? { confirm: 'true' as const } : {};
      await refreshed(answer(api.DELETE(addressOf(list), { params: { ...params, query } })));
      void refresh();
    },
  };
}

/** True when a change was refused because somebody else changed the record first. */
export function isOvertaken(error: unknown): boolean {
  return error instanceof ApiError && error.status === 412;
}

/** True when the configuration file has the record: the next start sets it back to what the file says. */
export function useIsOfFile(list: RecordList, name: string): boolean {
  const { data: file } = useQuery(fileQuery);
  return file?.[list].includes(name) ?? false;
}
