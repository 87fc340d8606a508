import type { ReactNode } from 'react';
import { type State, StateMark } from './state-mark.tsx';
import './way.css';

interface WayStepProps {
  readonly time?: ReactNode;
  readonly state: State;
  readonly what: ReactNode;
  readonly children: ReactNode;
}

/** One step of a course, in an `ol` of the class `way`. */
export function WayStep({ time, state, what, children }: WayStepProps) {
  return (
    <li>
      <span className="t">{time}</span>
      <span className="d">
        <StateMark state={state} label={null} />
      </span>
      <span className="what med clip">{what}</span>
      <span className="txt">{children}</span>
    </li>
  );
}
