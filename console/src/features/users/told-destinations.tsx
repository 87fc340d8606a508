import { useQuery } from '@tanstack/react-query';
import { destinationsQuery } from '../../api/queries.ts';
import { visibleLine } from '../../ui/visible-text.ts';

interface ToldProps {
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

export function Told({ chosen, onChange }: ToldProps) {
  const { data: destinations = [] } = useQuery(destinationsQuery);
  return (
    <fieldset className="plain stack-s">
      <legend className="lbl">Destinations that are told</legend>
      <div className="rowx checks">
        {destinations.map(({ name }) => (
          <label key={name} className="check">
            <input
              type="checkbox"
              checked={chosen.includes(name)}
              onChange={({ target }) =>
                onChange(target.checked ? [...chosen, name] : chosen.filter((one) => one !== name))
              }
            />
            {visibleLine(name)}
          </label>
        ))}
        {destinations.length === 0 && <span className="dim">There is no destination yet.</span>}
      </div>
    </fieldset>
  );
}
