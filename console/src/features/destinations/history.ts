import { queryOptions } from '@tanstack/react-query';
import { type Answer, answer, api } from '../../api/client.ts';

type Timeline = Answer<'/api/v1/timeline', 'get'>;
export type Failures = Answer<'/api/v1/destinations/{name}/failures', 'get'>;

/** Seconds of a point in a list, and of a bar of an endpoint. */
const HALF_HOUR = 1800;
const TWENTY_MINUTES = 1200;
/** How often a day is read again, in milliseconds. */
const SELDOM = 60_000;

/** The deliveries of a destination in the last 24 hours. */
export interface DestinationDay {
  /** One number for each half hour. */
  readonly delivered: readonly number[];
  /** The half hours in which requests failed and nothing was delivered. */
  readonly failing: readonly boolean[];
  /** Deliveries a second, now. */
  readonly rate: number;
  /** Milliseconds from the arrival of an event until it was delivered; absent where nothing was. */
  readonly p99?: number;
}

/** The last 24 hours of every destination, by name. */
export const destinationDaysQuery = queryOptions({
  queryKey: ['timeline', 'destinations'],
  queryFn: async ({ signal }): Promise<ReadonlyMap<string, DestinationDay>> =>
    destinationDays(
      await answer(
        api.GET('/api/v1/timeline', {
          params: {
            query: {
              range: '24h',
              step: HALF_HOUR,
              series: 'delivered,failed,deliveryP99',
              by: 'destination',
            },
          },
          signal,
        }),
      ),
    ),
  refetchInterval: SELDOM,
});

export function destinationDays({ groups }: Timeline): ReadonlyMap<string, DestinationDay> {
  const days = groups.map(({ destination = '', series, totals, now }): [string, DestinationDay] => {
    const p99 = totals['deliveryP99'];
    return [
      destination,
      {
        delivered: (series['delivered'] ?? []).map((count) => count ?? 0),
        failing: (series['delivered'] ?? []).map((count, nth) => isFailing(count, series['failed']?.[nth])),
        rate: now['delivered'] ?? 0,
        ...(p99 === undefined || p99 === null ? {} : { p99 }),
      },
    ];
  });
  return new Map(days);
}

/**
 * Whether a destination failed in a step: requests did, and nothing was delivered. Null stands for what is
 * not known.
 */
export function isFailing(
  delivered: number | null | undefined,
  failedRequests: number | null | undefined,
): boolean {
  return (failedRequests ?? 0) > 0 && (delivered ?? 0) === 0;
}

/** A bar of an endpoint: `none` while nothing was sent, `all` and `some` by what failed. */
export type Bar = 'none' | 'fine' | 'some' | 'all';

/** The last 24 hours of an endpoint. */
export interface EndpointBars {
  /** The begin of the first bar, in milliseconds. */
  readonly begin: number;
  readonly bars: readonly Bar[];
}

/** Bars of 20 minutes for the last 24 hours of each endpoint, by its URL as the status names it. */
export const endpointBarsQuery = (name: string) =>
  queryOptions({
    queryKey: ['timeline', 'endpoints', name],
    queryFn: async ({ signal }): Promise<ReadonlyMap<string, EndpointBars>> =>
      endpointBars(
        await answer(
          api.GET('/api/v1/timeline', {
            params: {
              query: {
                range: '24h',
                step: TWENTY_MINUTES,
                series: 'requests,failed',
                by: 'endpoint',
                destination: name,
              },
            },
            signal,
          }),
        ),
      ),
    refetchInterval: SELDOM,
  });

export function endpointBars({ from, groups }: Timeline): ReadonlyMap<string, EndpointBars> {
  const begin = Date.parse(from);
  return new Map(
    groups.map(({ endpoint = '', series }) => {
      const failed = series['failed'] ?? [];
      const bars = (series['requests'] ?? []).map((requests, nth) => barOf(requests ?? 0, failed[nth] ?? 0));
      return [endpoint, { begin, bars }];
    }),
  );
}

function barOf(requests: number, failed: number): Bar {
  if (requests === 0) return 'none';
  if (failed === 0) return 'fine';
  return failed < requests ? 'some' : 'all';
}

/**
 * The bars of a day in words: in how many something failed, and which was the last of them. `timeOf` writes a
 * time in milliseconds.
 */
export function barsText({ begin, bars }: EndpointBars, timeOf: (time: number) => string): string {
  if (bars.every((bar) => bar === 'none')) return '24 hours: nothing was sent';
  const count = (wanted: Bar) => bars.filter((bar) => bar === wanted).length;
  const last = bars.findLastIndex((bar) => bar === 'all' || bar === 'some');
  if (last < 0) return '24 hours in bars of 20 minutes: no request failed';
  const at = (nth: number) => timeOf(begin + nth * TWENTY_MINUTES * 1000);
  const when = last === bars.length - 1 ? `since ${at(last)}` : `${at(last)} – ${at(last + 1)}`;
  return `24 hours in bars of 20 minutes: in ${count('all')} everything failed, in ${count('some')} something; the last of them ${when}`;
}

/** Failed requests of the last hour by endpoint and reason, with what to do about each. */
export const failuresQuery = (name: string) =>
  queryOptions({
    queryKey: ['destinations', name, 'failures'],
    queryFn: async ({ signal }): Promise<Failures> =>
      await answer(api.GET('/api/v1/destinations/{name}/failures', { params: { path: { name } }, signal })),
    refetchInterval: 10_000,
  });
