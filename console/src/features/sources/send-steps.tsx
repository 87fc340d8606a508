import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { destinationsQuery, keyOf, statusQuery } from '../../api/queries.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { exactNumber } from '../../ui/format.ts';
import { Icon } from '../../ui/icons.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import type { SourceRecord } from './queries.ts';
import { sourceSnippets } from './snippets.ts';
import './sources.css';

/** Three steps to the first event; each is ticked by itself when it has happened. */
export function SendSteps({ source }: { readonly source: SourceRecord }) {
  const { name } = source;
  const { data: status } = useQuery(statusQuery);
  const { data: destinations = [] } = useQuery(destinationsQuery);
  const counts = Object.hasOwn(status?.sources ?? {}, name) ? status?.sources[name] : undefined;
  const accepted = counts?.accepted ?? 0;
  const takers = destinations.filter(({ sources }) => sources.includes(name)).map((one) => one.name);
  const delivered = takers.some((taker) => (status?.destinations[taker]?.delivered ?? 0) > 0);
  const hasArrived = accepted > 0;
  return (
    <ol className="steps">
      <li className="done">
        <div>
          <h2>Source made</h2>
          <p className="soft">Its write key names it in every call.</p>
        </div>
      </li>
      <li className={hasArrived ? 'done' : 'now'}>
        <div className="step-body">
          <h2>Send an event</h2>
          <p className="soft">
            Any library that speaks Segment’s protocol works unmodified. Address and key are filled in.
          </p>
          <Snippets source={source} />
          <p className="rowx" role="status">
            {hasArrived ? (
              <span className="st ok">
                <Icon name="ok" />
                {exactNumber(accepted)} {accepted === 1 ? 'event has' : 'events have'} arrived
              </span>
            ) : !source.enabled ? (
              <StateMark
                state="disabled"
                label={`Disabled: calls are ${source.whenDisabled === 'discard' ? 'answered 200 and discarded' : 'refused with 401'}. Enable it under Settings.`}
              />
            ) : (
              <>
                <span className="wait water">Waiting for the first event</span>
                <span className="dim">This page notices by itself.</span>
              </>
            )}
          </p>
        </div>
      </li>
      <li className={hasArrived && delivered ? 'done' : hasArrived ? 'now' : ''}>
        <div>
          <h2>See it delivered</h2>
          <Takers names={takers} />
        </div>
      </li>
    </ol>
  );
}

function Takers({ names }: { readonly names: readonly string[] }) {
  if (names.length === 0) {
    return (
      <p className="soft">
        No destination takes it yet: events are stored, and a replay sends them later.{' '}
        <Link to="/destinations" className="link">
          Destinations
        </Link>
      </p>
    );
  }
  return (
    <p className="soft">
      Goes to{' '}
      {names.map((name, nth) => (
        <span key={name}>
          {nth > 0 && ', '}
          <Link to="/destinations/$name" params={{ name }} className="link">
            {visibleLine(name)}
          </Link>
        </span>
      ))}
      .
    </p>
  );
}

function Snippets({ source }: { readonly source: SourceRecord }) {
  const [language, setLanguage] = useState('curl');
  const snippets = sourceSnippets({ origin: window.location.origin, writeKey: keyOf(source) ?? 'WRITE_KEY' });
  return (
    <Tabs
      label="Language"
      value={language}
      onChange={setLanguage}
      tabs={snippets.map(({ language: value, code }) => ({
        value,
        label: value,
        content: (
          <CodeBlock
            code={code}
            title="Run this, or paste it into your program"
            label={`Snippet for ${value}`}
          />
        ),
      }))}
    />
  );
}
