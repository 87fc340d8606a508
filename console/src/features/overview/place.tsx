import { Link } from '@tanstack/react-router';
import type { CSSProperties, ReactNode } from 'react';
import { shortNumber } from '../../ui/format.ts';
import { type State, toneOf } from '../../ui/state-mark.tsx';

/** A station of the race: its number in the range, its present rate, and the list behind it. */
export interface Place {
  readonly id: string;
  readonly label: string;
  readonly count: number;
  /** Text beside the count. */
  readonly about: string;
  readonly to: '/live' | '/events' | '/destinations' | '/sources';
  /** Range of the list, if it can have one. */
  readonly range?: { readonly from: string; readonly to: string };
}

interface PlaceLinkProps {
  readonly place: Place;
  readonly style?: CSSProperties;
  readonly className?: string;
  readonly children: ReactNode;
}

/** Links to the list behind a number, for the same range. */
export function PlaceLink({ place: { to, range }, ...rest }: PlaceLinkProps) {
  return range === undefined ? <Link to={to} {...rest} /> : <Link to="/events" search={range} {...rest} />;
}

/** An outlet between two stations. */
export interface SidePlace extends Place {
  /** State of the events that leave here. */
  readonly state: State;
  /** Number of waiting deliveries that have failed and are retried. */
  readonly retrying?: number;
}

/** Text beside the number of an outlet: its rate, or how many of the waiting deliveries are retried. */
export function SideAbout({ side: { about, retrying } }: { readonly side: SidePlace }) {
  if (retrying === undefined) return <span className="dim">{about}</span>;
  return (
    <span className={retrying > 0 ? toneOf('retrying', retrying) : 'dim'}>
      {shortNumber(retrying)} retrying
    </span>
  );
}
