import { Link } from '@tanstack/react-router';
import type { CSSProperties, ReactNode } from 'react';
import { shortNumber } from '../../ui/format.ts';
import { type State, toneOf } from '../../ui/state-mark.tsx';

/** A station: its number in the range, its rate now, and the list behind it. */
export interface Place {
  readonly id: string;
  readonly label: string;
  readonly count: number;
  /** Beside the count. */
  readonly about: string;
  readonly to: '/live' | '/events' | '/destinations' | '/sources';
  /** The range of the list, where it can have one. */
  readonly range?: { readonly from: string; readonly to: string };
}

interface PlaceLinkProps {
  readonly place: Place;
  readonly style?: CSSProperties;
  readonly className?: string;
  readonly children: ReactNode;
}

/** Opens the list behind a number, for the range that the number is of. */
export function PlaceLink({ place: { to, range }, ...rest }: PlaceLinkProps) {
  return range === undefined ? <Link to={to} {...rest} /> : <Link to="/events" search={range} {...rest} />;
}

/** An outlet between two stations. */
export interface SidePlace extends Place {
  /** What has gone out here. */
  readonly state: State;
  /** How many of those that wait here have failed and are tried again. */
  readonly retrying?: number;
}

/** Beside the number of an outlet: its rate, or how much of what waits is tried again. */
export function SideAbout({ side: { about, retrying } }: { readonly side: SidePlace }) {
  if (retrying === undefined) return <span className="dim">{about}</span>;
  return (
    <span className={retrying > 0 ? toneOf('retrying', retrying) : 'dim'}>
      {shortNumber(retrying)} retrying
    </span>
  );
}
