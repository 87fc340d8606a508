import { useEffect, useState } from 'react';
import { serverNow } from '../api/server-time.ts';
import { clock, clockOfDay, dateTime, exactNumber, relative, shortNumber } from './format.ts';
import { usePreferences } from './preferences.ts';

/** The time now at the server, in milliseconds, read again every `interval`. */
export function useNow(interval = 1000): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now;
}

interface TimeProps {
  /** ISO 8601, or milliseconds. */
  readonly at: string | number;
}

/** "14 min ago", with the exact time on hover. */
export function RelativeTime({ at }: TimeProps) {
  const { zone } = usePreferences();
  const time = new Date(at).getTime();
  const now = useNow();
  return (
    <time dateTime={new Date(time).toISOString()} title={dateTime(time, zone)} className="num nowrap">
      {relative(time, now)}
    </time>
  );
}

/** "in 38 s", and "due" once that time has come: it waits for its turn then, and is not late. */
export function Due({ at }: TimeProps) {
  const now = useNow();
  return new Date(at).getTime() > now ? <RelativeTime at={at} /> : 'due';
}

/** "Fri 20 Nov, 14:32:07", with the milliseconds on hover. */
export function DayTime({ at }: TimeProps) {
  const { zone } = usePreferences();
  const time = new Date(at).getTime();
  const exact = dateTime(time, zone);
  return (
    <time dateTime={new Date(time).toISOString()} title={exact} className="num nowrap">
      {exact.replace(/\.\d{3}/, '')}
    </time>
  );
}

interface ClockProps extends TimeProps {
  /** True to leave out the day: it stands elsewhere, or on hover. */
  readonly isBare?: boolean;
}

/** "14:32:07.386", with the day before it where it is not today. */
export function Clock({ at, isBare = false }: ClockProps) {
  const { zone } = usePreferences();
  const time = new Date(at).getTime();
  return (
    <time dateTime={new Date(time).toISOString()} title={dateTime(time, zone)} className="num mono nowrap">
      {isBare ? clock(time, zone) : clockOfDay(time, serverNow(), zone)}
    </time>
  );
}

/** "12.4 k", with the exact number on hover. */
export function Num({ value }: { readonly value: number }) {
  return (
    <span className="num nowrap" title={exactNumber(value)}>
      {shortNumber(value)}
    </span>
  );
}
