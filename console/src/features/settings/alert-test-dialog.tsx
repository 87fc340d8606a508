import { CodeBlock } from '../../ui/code-block.tsx';
import { Button } from '../../ui/controls.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Failure } from '../../ui/empty-state.tsx';
import { duration } from '../../ui/format.ts';
import { StateMark } from '../../ui/state-mark.tsx';
import { visibleText } from '../../ui/visible-text.ts';
import { type Alert, useTestAlert } from './queries.ts';

/** Sends one message that says that it is a test, and shows what the receiver answered. */
export function AlertTestDialog({
  alert: { name },
  onClose,
}: {
  readonly alert: Alert;
  readonly onClose: () => void;
}) {
  const test = useTestAlert(name);
  const { data } = test;
  return (
    <Dialog
      title={`Send a test of ${name}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" disabled={test.isPending} onClick={() => test.mutate()}>
            {data === undefined ? 'Send a test' : 'Send again'}
          </Button>
        </>
      }
    >
      <p className="soft">One message goes out now. It says that it is a test and that nothing is wrong.</p>
      {test.error !== null && <Failure error={test.error} />}
      <div className="stack-s" aria-live="polite" aria-busy={test.isPending}>
        {data !== undefined && (
          <>
            <div className="rowx">
              <StateMark
                state={data.outcome === 'taken' ? 'delivered' : 'failed'}
                label={data.outcome === 'taken' ? 'taken' : 'not taken'}
              />
              <span className="mono clip">{visibleText(data.receiver)}</span>
              <span className="dim num nowrap">
                {data.status === undefined ? '' : `${data.status} `}in {duration(data.latencyMs)}
              </span>
            </div>
            {data.answer !== '' && <CodeBlock code={data.answer} title="Answered" label="Answer" />}
          </>
        )}
      </div>
    </Dialog>
  );
}
