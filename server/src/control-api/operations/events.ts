import * as z from 'zod';
import { CALL_TYPES } from '../../model/event.ts';
import { defined } from '../../model/json.ts';
import { isoTime } from '../../model/time.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import type { EventQuery, EventTrace, Page, PageRequest, PageStart } from '../../reporting/contract.ts';
import { faultOf, idAsJson, idInQuery, textInQuery } from '../ids.ts';
import { type ApiOperation, defineOperation } from '../operation.ts';
import {
  decodeCursor,
  encodeCursor,
  formatPageStart,
  pageQuery,
  pageSchema,
  parsePageStart,
  timeParameter,
} from '../pagination.ts';
import { Problem } from '../problem.ts';
import { shownEvent } from '../shown-events.ts';
import { ASKED_SOURCE } from '../token-limits.ts';
import { unknownName } from '../unknown-name.ts';
import { tracedCallSchema } from './reports.ts';

export interface EventOperationDependencies {
  readonly settings: { now(): SettingsSnapshot };
  readonly search: {
    events(query: EventQuery, page: PageRequest<PageStart>): Promise<Page<EventTrace>>;
  };
}

/** The filters that both searches share. */
export const eventFilterFields = {
  source: textInQuery.exactOptional().meta({ description: 'Name of the source.' }),
  type: z.enum(CALL_TYPES).exactOptional(),
  userId: idInQuery.exactOptional(),
  anonymousId: idInQuery.exactOptional(),
};

/** A page of a search, with the distance it has searched. */
export function searchPageSchema<Entry extends z.ZodType>(entry: Entry) {
  return pageSchema(entry).extend({
    searched: z.int().meta({ description: 'Events that were looked at for this page, found or not.' }),
    searchedTo: z.string().exactOptional().meta({
      description: 'All that arrived later was looked at; where `next` is null, everything was.',
    }),
  });
}

/** A page as it is answered. `cursor` encodes the start of the next one. */
export function searchPageView<Entry, From>(
  { data, next, searched, searchedTo }: Page<Entry, From>,
  cursor: (next: From) => string,
) {
  return {
    data,
    next: next === undefined ? null : cursor(next),
    searched,
    ...defined({ searchedTo: isoTime(searchedTo) }),
  };
}

const eventQuery = z.object({
  ...eventFilterFields,
  userIdJson: idAsJson.exactOptional().meta({ description: 'A userId as JSON text, in its quotes.' }),
  anonymousIdJson: idAsJson
    .exactOptional()
    .meta({ description: 'An anonymousId as JSON text, in its quotes.' }),
  messageId: idInQuery.exactOptional().meta({ description: 'Has this messageId.' }),
  event: textInQuery.min(1).exactOptional().meta({
    description: 'Name of what was tracked, or of the page or screen. A `*` at the end stands for any rest.',
  }),
  from: timeParameter.exactOptional().meta({ description: 'Arrived at this time or later.' }),
  to: timeParameter.exactOptional().meta({ description: 'Arrived before this time.' }),
  ...pageQuery,
});

/** spec/contract.md, "Operations on events". */
export function eventOperations({ settings, search }: EventOperationDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'events',
      role: 'viewer',
      summary:
        'Finds stored events, the newest first, each with its whole life. Looks for about a second: a page may be short, ' +
        'or empty, and go on with `next`',
      query: eventQuery,
      answer: searchPageSchema(tracedCallSchema),
      problems: ['unknown_name'],
      isWithin: ASKED_SOURCE,
      run: async ({ query: { limit, cursor, ...asked }, client: { caller } }) => {
        const place = parsePageStart(decodeCursor(cursor, { list: 'events', ...asked }));
        const { source, userIdJson, anonymousIdJson, ...rest } = asked;
        const wish = {
          ...rest,
          ...defined({ userId: userIdJson, anonymousId: anonymousIdJson }),
          ...sourceFilter(source, settings.now()),
        };
        const page = await search.events(wish, { limit, ...place });
        if (cursor === undefined && page.next === undefined && page.data.length === 0) refuseFaults(asked);
        const data = page.data.map((entry) => shownEvent(caller, entry));
        return searchPageView({ ...page, data }, (next) =>
          encodeCursor(formatPageStart(next), { list: 'events', ...asked }),
        );
      },
    }),
  ];
}

/**
 * An id that receiving refuses can only be one that an earlier version has stored. Called when no event has
 * it.
 */
function refuseFaults(asked: Omit<z.output<typeof eventQuery>, 'limit'>): void {
  const errors = (['userId', 'userIdJson', 'anonymousId', 'anonymousIdJson'] as const).flatMap((name) => {
    const fault = asked[name] === undefined ? undefined : faultOf(asked[name]);
    return fault === undefined ? [] : [{ path: `query.${name}`, message: `${fault}; no event has this one` }];
  });
  if (errors.length > 0) throw new Problem('invalid_parameters', { errors });
}

/** The id of a source by its name. A removed source counts too, because its events are still stored. */
export function sourceFilter(
  name: string | undefined,
  { sources, gone }: SettingsSnapshot,
): { readonly source?: number } {
  if (name === undefined) return {};
  const source = [...sources, ...gone.sources].find((one) => one.name === name);
  if (source !== undefined) return { source: source.id };
  throw unknownName(name, 'source', sources);
}
