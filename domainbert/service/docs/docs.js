"use strict";
// The routes of /openapi.json as a list: nothing is fetched from elsewhere.
const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });
fetch("/openapi.json")
  .then((answer) => answer.json())
  .then((api) => {
    const routes = document.getElementById("routes");
    routes.textContent = "";
    for (const [path, methods] of Object.entries(api.paths)) {
      for (const [method, route] of Object.entries(methods)) {
        const section = document.createElement("section");
        section.append(element("h2", `${method.toUpperCase()} ${path}`), element("p", route.description));
        const body = route.requestBody?.content["application/json"]?.schema;
        if (body) {
          const details = document.createElement("details");
          details.append(element("summary", "Body"), element("pre", JSON.stringify(body, null, 2)));
          section.append(details);
        }
        routes.append(section);
      }
    }
  });
