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

/** The parts of an infinite query that a search needs to go on. */
interface SearchedQuery {
  readonly data?: { readonly pages: readonly SearchedPage[] } | undefined;
  readonly hasNextPage: boolean;
  readonly isFetching: boolean;
  readonly isError: boolean;
  fetchNextPage(): Promise<unknown>;
}

export interface Search {
  /** Number of events or deliveries that were searched. */
  readonly searched: number;
  /** Time back to which was searched; absent when everything was. */
  readonly searchedTo?: string;
  readonly hasMore: boolean;
  /** True while the search goes on automatically. */
  readonly isGoingOn: boolean;
  /** Searches further back until more is found, or everything was searched. */
  goOn(): void;
  stop(): void;
}

/** Number of results after which a search stops until more are wanted: the largest page of an answer. */
const AT_ONCE = 50;

/** Runs a search: it goes on until a page is full. `of` names the search; another value begins anew. */
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

/** Goes on searching while nothing is found: for a short list that is known to have entries. */
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
  /** The kind of results: "events". */
  readonly what: string;
}

/** Shown in place of a list without results: how far the search has come. */
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

/** Foot of a list: number of results, progress of the search, and a button for more. */
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

/** Share of the stored time that was searched. */
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
