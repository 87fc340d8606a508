import { Fragment } from 'react';
import { bytes } from '../../ui/format.ts';
import { JsonView } from '../../ui/json-view.tsx';
import { Clock } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import type { AcceptedEvent } from './queries.ts';
import { receivedFacts, storedSize } from './received.ts';
import './event-lists.css';

/** The call of an event, as far as it is known: what the event holds, and when it came. */
export function ReceivedCall({ entry: { event, source, receivedAt } }: { readonly entry: AcceptedEvent }) {
  return (
    <>
      <div className="box">
        <dl className="kv mono pad">
          <dt>Source</dt>
          <dd>{visibleLine(source)}</dd>
          <dt>Received</dt>
          <dd>
            <Clock at={receivedAt} />
          </dd>
          {receivedFacts(event).map(({ name, value, note }) => (
            <Fragment key={name}>
              <dt>{name}</dt>
              <dd>
                {visibleLine(value)} {note !== undefined && <span className="dim whose">{note}</span>}
              </dd>
            </Fragment>
          ))}
        </dl>
      </div>
      <JsonView
        label="the event as it is stored"
        title={`The event, ${bytes(storedSize(event))} as it is stored`}
        value={event}
      />
      <p className="hint">
        Kept of a call: this event, whose size is that of its JSON before the store compresses it. Not kept:
        the headers of the request, and the bytes of its body as the client wrote them.
      </p>
    </>
  );
}
