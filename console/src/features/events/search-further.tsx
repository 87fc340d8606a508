import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { statusQuery } from '../../api/queries.ts';
import { Button } from '../../ui/controls.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { exactNumber } from '../../ui/format.ts';
import { RelativeTime, useNow } from '../../ui/time.tsx';
import '../../ui/progress.css';

/** A page of a search: the server looks for about a second, and says how far it came. */
interface SearchedPage {
  readonly data: readonly unknown[];
  readonly searched: number;
  readonly searchedTo?: string;
}

/** What an infinite query of a search has, as far as going on needs it. */
interface SearchedQuery {
  readonly data?: { readonly pages: readonly SearchedPage[] } | undefined;
  readonly hasNextPage: boolean;
  readonly isFetching: boolean;
  readonly isError: boolean;
  fetchNextPage(): Promise<unknown>;
}

export interface Search {
  /** Events or deliveries that were looked at. */
  readonly searched: number;
  /** Up to where; absent when everything was looked at. */
  readonly searchedTo?: string;
  readonly hasMore: boolean;
  /** It looks further back by itself. */
  readonly isGoingOn: boolean;
  /** Looks further back until more is found, or everything was looked at. */
  goOn(): void;
  stop(): void;
}

/** So many are found before it stops, and so many more whenever more are wanted: what a page of an answer has at most. */
const AT_ONCE = 50;

/** How far a search has come. It goes on by itself until it has found a page full. `of` names what is searched for: another begins anew. */
export function useSearch(query: SearchedQuery, of: string): Search {
  const { hasNextPage, isFetching, isError, fetchNextPage } = query;
  const pages = query.data?.pages ?? [];
  const found = pages.reduce((sum, { data }) => sum + data.length, 0);
  const [goal, setGoal] = useState({ of, count: AT_ONCE });
  const isGoingOn = found < (goal.of === of ? goal.count : AT_ONCE) && hasNextPage && !isError;
  useEffect(() => {
    if (isGoingOn && !isFetching) void fetchNextPage();
  }, [isGoingOn, isFetching, fetchNextPage]);
  const searchedTo = hasNextPage ? pages.at(-1)?.searchedTo : undefined;
  return {
    searched: pages.reduce((sum, page) => sum + page.searched, 0),
    ...(searchedTo === undefined ? {} : { searchedTo }),
    hasMore: hasNextPage,
    isGoingOn,
    goOn: () => setGoal({ of, count: found + AT_ONCE }),
    stop: () => setGoal({ of, count: 0 }),
  };
}

/** Goes on by itself while nothing is found: for a short list that knows that there is something. */
export function useUntilFound(query: SearchedQuery): void {
  const { hasNextPage, isFetching, isError, fetchNextPage } = query;
  const isEmpty = query.data?.pages.every(({ data }) => data.length === 0) ?? false;
  const goesOn = isEmpty && hasNextPage && !isError;
  useEffect(() => {
    if (goesOn && !isFetching) void fetchNextPage();
  }, [goesOn, isFetching, fetchNextPage]);
}

interface SearchStateProps {
  readonly search: Search;
  /** What is looked at: "events". */
  readonly what: string;
}

/** In the place of a list that has found nothing yet: how far it has looked, while it looks further. */
export function NothingYet({ search, what }: SearchStateProps) {
  const { searched, searchedTo, isGoingOn } = search;
  return (
    <div className="box">
      <EmptyState
        title={isGoingOn ? `Searching ${what}` : 'Nothing found so far'}
        isWaiting={isGoingOn}
        action={
          <div className="stack-s">
            <SearchProgress search={search} />
            <Button onClick={isGoingOn ? search.stop : search.goOn}>
              {isGoingOn ? 'Stop' : 'Search on'}
            </Button>
          </div>
        }
      >
        Looked at {exactNumber(searched)} {what}
        {searchedTo !== undefined && (
          <>
            , back to <RelativeTime at={searchedTo} />
          </>
        )}
        . {isGoingOn ? 'It goes on until something is found.' : 'Older ones may match.'}
      </EmptyState>
    </div>
  );
}

/** Below a list: how many are shown, how far it has looked, and more of it. */
export function SearchFoot({ search, what, shown }: SearchStateProps & { readonly shown: number }) {
  const { searched, searchedTo, hasMore, isGoingOn } = search;
  return (
    <>
      <span className="num">
        {exactNumber(shown)} shown
        {hasMore && searched > shown && `, ${exactNumber(searched)} ${what} looked at`}
        {searchedTo !== undefined && (
          <>
            , back to <RelativeTime at={searchedTo} />
          </>
        )}
        {!hasMore && '; that is all'}
      </span>
      {hasMore && (
        <Button kind="quiet" isSmall onClick={isGoingOn ? search.stop : search.goOn}>
          {isGoingOn ? 'Stop' : 'More'}
        </Button>
      )}
    </>
  );
}

/** The part of the stored time that was looked at. */
function SearchProgress({ search: { searchedTo } }: { readonly search: Search }) {
  const { data: status } = useQuery(statusQuery);
  const now = useNow();
  const oldest = status?.log.oldestAt;
  if (oldest === undefined || searchedTo === undefined) return null;
  const all = Math.max(1, now - Date.parse(oldest));
  return (
    <progress
      className="bar-progress"
      aria-label="Part of the stored time that was looked at"
      max={all}
      value={Math.min(all, now - Date.parse(searchedTo))}
    />
  );
}
