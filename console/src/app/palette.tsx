import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Fragment, type KeyboardEvent, useState } from 'react';
import { destinationsQuery, sourcesQuery, statusQuery } from '../api/queries.ts';
import { useMay } from '../api/roles.ts';
import { own, sum } from '../features/destinations/rows.ts';
import { computationsQuery } from '../features/users/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Icon } from '../ui/icons.tsx';
import { StateMark } from '../ui/state-mark.tsx';
import { visibleLine } from '../ui/visible-text.ts';
import { type Choice, choices, markedLabel, type PaletteRecords } from './choices.ts';
import './palette.css';

/** Finds sections, records by name, actions, and everything that an id may belong to. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const found = choices(text, usePaletteRecords());
  const chosen = Math.min(at, found.length - 1);
  const isUnknown = found.every(({ group }) => group === 'Find');

  const open = (choice: Choice | undefined): void => {
    if (choice === undefined) return;
    onClose();
    void navigate({ href: choice.href });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined) {
      const next = (chosen + by + found.length) % Math.max(found.length, 1);
      setAt(next);
      // Only the keys move the list: what the mouse points at is in sight.
      document.getElementById(`palette-${next}`)?.scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter') open(found[chosen]);
    else return;
    event.preventDefault();
  };

  return (
    <Dialog title="Search or jump" onClose={onClose} className="pal">
      <div className="pal-q">
        <Icon name="search" />
        <input
          autoFocus
          role="combobox"
          aria-label="Search or jump"
          aria-expanded="true"
          aria-controls="palette-options"
          aria-activedescendant={found.length > 0 ? `palette-${chosen}` : undefined}
          placeholder="A section, a name, a messageId, a userId"
          autoComplete="off"
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <p className="pal-none" role="status">
        {isUnknown && 'No section, record or action is called so. As an id it may be one of these:'}
      </p>
      <div className="pal-opts" role="listbox" id="palette-options" aria-label="Found">
        {found.map((choice, index) => (
          <Fragment key={`${choice.group} ${choice.href}`}>
            {choice.group !== found[index - 1]?.group && (
              <div className="pal-group" role="presentation">
                {choice.group}
              </div>
            )}
            <Option
              id={`palette-${index}`}
              choice={choice}
              text={text}
              isChosen={index === chosen}
              onOpen={() => open(choice)}
              onPoint={() => setAt(index)}
            />
          </Fragment>
        ))}
      </div>
      <div className="pal-foot" aria-hidden="true">
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> choose
        </span>
        <span>
          <kbd>↵</kbd> open
        </span>
        <span className="push">
          <kbd>esc</kbd> close
        </span>
      </div>
    </Dialog>
  );
}

/** The records that the palette finds by name, with the states that are known already. */
function usePaletteRecords(): PaletteRecords {
  const { data: destinations = [] } = useQuery(destinationsQuery);
  const { data: sources = [] } = useQuery(sourcesQuery);
  const { data: audiences = [] } = useQuery(computationsQuery('audiences'));
  const { data: status } = useQuery(statusQuery);
  const mayEdit = useMay('editor');
  return {
    destinations: destinations.map(({ name }) => {
      const lane = own(status?.lanes, name);
      const dead = sum(own(status?.destinations, name)?.dead ?? {});
      return { name, dead, ...(lane === undefined ? {} : { state: lane.state }) };
    }),
    sources,
    audiences,
    mayEdit,
  };
}

interface OptionProps {
  readonly id: string;
  readonly choice: Choice;
  /** The typed text. */
  readonly text: string;
  readonly isChosen: boolean;
  readonly onOpen: () => void;
  readonly onPoint: () => void;
}

function Option({ id, choice, text, isChosen, onOpen, onPoint }: OptionProps) {
  const { icon, label, about, state } = choice;
  const [before, match, after] = markedLabel(visibleLine(label, 80), text);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys.
    // biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus, as a combobox does.
    <div
      id={id}
      role="option"
      aria-selected={isChosen}
      className="pal-opt"
      onClick={onOpen}
      // A list that scrolls moves below a pointer that rests.
      onPointerMove={({ movementX, movementY }) => (movementX !== 0 || movementY !== 0) && onPoint()}
    >
      <Icon name={icon} />
      <span className="clip">
        {before}
        {match !== '' && <mark>{match}</mark>}
        {after}
      </span>
      <span className="pal-about">
        {state === undefined || state === 'healthy' ? about : <StateMark state={state} />}
      </span>
    </div>
  );
}
