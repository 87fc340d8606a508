import { type State, StateMark } from '../../ui/state-mark.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import './delivery-marks.css';

/** The state of an event at one destination. */
interface DeliveryMark {
  readonly destination: string;
  readonly state: State;
  readonly reason?: string | undefined;
}

/** Deliveries of an event in a row of a list: success is a bare mark and stands first, what is not a success is named. */
export function DeliveryMarks({ deliveries }: { readonly deliveries: readonly DeliveryMark[] }) {
  const good = deliveries.filter(({ state }) => state === 'delivered');
  const others = deliveries.filter(({ state }) => state !== 'delivered');
  return (
    <span className="dls">
      <span className="oks">
        {good.map(({ destination }) => (
          <span key={destination} title={`${destination}: delivered`}>
            <StateMark state="delivered" label={null} />
          </span>
        ))}
      </span>
      {others.map(({ destination, state, reason }) => (
        <span
          key={destination}
          title={`${destination}: ${state}${reason === undefined ? '' : `, ${reason}`}`}
        >
          <StateMark state={state} label={visibleLine(destination, 24)} />
        </span>
      ))}
    </span>
  );
}
