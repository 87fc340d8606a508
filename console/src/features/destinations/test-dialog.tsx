import { useState } from 'react';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Button, Select } from '../../ui/controls.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Failure } from '../../ui/empty-state.tsx';
import { duration } from '../../ui/format.ts';
import { JsonView } from '../../ui/json-view.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { visibleText } from '../../ui/visible-text.ts';
import { adviceFor } from '../events/reasons.ts';
import { CALL_TYPES, type CallType } from './form.ts';
import { type TestResult, useTestDestination } from './queries.ts';

/** Sends an example event to every endpoint once, and shows what was sent and answered. Nothing is stored. */
export function TestDialog({ name, onClose }: { readonly name: string; readonly onClose: () => void }) {
  const [type, setType] = useState<CallType>('track');
  const test = useTestDestination(name);
  return (
    <Dialog
      title={`Send a test to ${name}`}
      className="dlg dlg-wide"
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" disabled={test.isPending} onClick={() => test.mutate(type)}>
            {test.data === undefined ? 'Send test' : 'Send again'}
          </Button>
        </>
      }
    >
      <div className="rowx">
        <span className="soft">An example event of type</span>
        <Select
          aria-label="Type of the event"
          value={type}
          options={CALL_TYPES.map((value) => ({ value, label: value }))}
          onChange={(value) => setType(value as CallType)}
        />
        <span className="soft">goes to every URL once. Nothing of it is stored.</span>
      </div>
      {test.error !== null && <Failure error={test.error} />}
      <div className="stack" aria-live="polite" aria-busy={test.isPending}>
        {test.data?.map((result) => (
          <TestResultView key={result.request.url} result={result} />
        ))}
      </div>
    </Dialog>
  );
}

function TestResultView({ result }: { readonly result: TestResult }) {
  const { request, outcome, reason, status, latencyMs, answer } = result;
  const advice = outcome === 'accepted' ? undefined : adviceFor(reason);
  return (
    <section className="stack-s">
      <div className="rowx">
        <StateMark state={outcome} />
        <span className="mono clip">{visibleText(request.url)}</span>
        <span className="dim num nowrap">
          {status ?? reason} in {duration(latencyMs)}
        </span>
      </div>
      {advice !== undefined && (
        <p>
          {advice.cause} <span className="soft">{advice.action}</span>
        </p>
      )}
      {answer !== undefined && <CodeBlock code={answer} title="Answered" label="Answer" />}
      <details>
        <summary className="link">What was sent</summary>
        <div className="stack-s">
          <CodeBlock code={headerText(request.headers)} title="Headers" label="Headers of the request" />
          <JsonView value={parsed(request.body)} text={request.body} label="Body of the request" />
        </div>
      </details>
    </section>
  );
}

type Headers = TestResult['request']['headers'];

/** Headers as a request has them; a secret one shows only its last characters. */
function headerText(headers: Headers): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : `…${value.hint ?? ''}`}`)
    .join('\n');
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}
